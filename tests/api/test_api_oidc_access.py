"""Sign-in by token beyond the signature check: refusals, expiry, and no effect on other users."""

import base64
import json
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from aliquot.api.oidc.jwks import ProviderKeys
from aliquot.api.oidc.tokens import CACHED_MAX
from aliquot.api.sign_in import FORM_BYTES_MAX
from aliquot_schema.identity.accounts import Role
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller
from aliquot_schema.views.accounts import UserChanges
from oidc_server import OidcServer, oidc_server

pytestmark = pytest.mark.anyio

ISSUER: Final = "https://id.example.org"
KEY: Final = ec.generate_private_key(ec.SECP256R1())
ROOT: Final = Caller(user=UserId("root"), request_id="req_test", role=Role.ADMIN)


async def fetch_from_provider(address: str) -> bytes:
    """The provider's answers."""
    public: dict[str, Any] = ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
    keys = {"keys": [public | {"kid": "first"}]}
    return json.dumps(keys if address.endswith("/keys") else {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"}).encode()


@pytest.fixture
async def here() -> AsyncIterator[OidcServer]:
    async with oidc_server(ISSUER, keys=ProviderKeys(ISSUER, fetch=fetch_from_provider), oidc_users="new") as running:
        yield running


def token(sub: str = "4711", *, left_s: int = 600, **more: Any) -> str:
    now = int(time.time())
    said = {"iss": ISSUER, "aud": "aliquot", "sub": sub, "iat": now, "exp": now + left_s, "preferred_username": "ann"}
    return jwt.encode(said | more, KEY, algorithm="ES256", headers={"kid": "first"})


def by_hand(head: str) -> str:
    """An unsigned token."""
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (head.encode(), b"{}", b"x"))


@pytest.mark.parametrize("path", ["/queue", "/graphql", "/healthz"])
async def test_a_token_with_invalid_unicode_gets_401_and_no_server_error(here: OidcServer, path: str) -> None:
    for text in (by_hand(r'{"alg": "\ud800"}'), token(preferred_username="\ud800")):
        async with here.client(text) as client:
            answer = await client.get(path)
        assert answer.status_code == (200 if path == "/healthz" else 401), answer.text


async def test_invalid_tokens_do_not_evict_valid_tokens_from_the_cache(here: OidcServer) -> None:
    mine = token()
    await here.authenticator.resolve(mine)
    for number in range(CACHED_MAX + 1):
        await here.authenticator.resolve(f"{number}..")
    bearer = here.authenticator.bearer_of(mine, now_us=0)
    assert bearer is not None
    assert bearer.user == "ann"


async def test_refused_users_get_the_reason(here: OidcServer) -> None:
    mine = token()
    assert (await here.me(mine)).status_code == 200
    await here.accounts.disable_user(ROOT, "ann", None)
    assert "has no access any more" in (await here.me(mine)).text
    async with httpx.AsyncClient(base_url=here.url, timeout=60) as browser:
        refused = await browser.post("/login", data={"key": token(left_s=-600)}, headers={"origin": here.url})
    assert refused.status_code == 401
    assert "The token has expired" in refused.text


@pytest.mark.parametrize("body", [b"key=" + b"%41" * FORM_BYTES_MAX, b"&".join([b"a=1"] * 9), b"\xff", b""])
async def test_the_sign_in_form_limits_the_size_and_fields_of_its_body(here: OidcServer, body: bytes) -> None:
    headers = {"origin": here.url, "content-type": "application/x-www-form-urlencoded"}
    async with httpx.AsyncClient(base_url=here.url, timeout=60) as browser:
        refused = await browser.post("/login", content=body, headers=headers)
    assert refused.status_code in (400, 401)
    assert "<form" in refused.text
    assert (refused.status_code == 400) is (len(body) > FORM_BYTES_MAX or body.count(b"&") >= 8)


async def test_a_cached_token_is_invalid_after_its_user_gets_another_identity(here: OidcServer) -> None:
    mine, before = token(), here.stage.state.revision
    assert (await here.me(mine)).status_code == 200
    assert here.stage.state.revision == before + 1
    bearer = here.authenticator.bearer_of(mine, now_us=0)
    assert bearer is not None
    assert bearer.key_id is not None
    await here.accounts.update_user(ROOT, "ann", UserChanges(forget_identity=True), None)
    assert here.authenticator.bearer(bearer.key_id, now_us=0) is None
    assert (await here.me(token("4712"))).json()["data"]["me"]["name"] == "ann"
    assert here.authenticator.bearer(bearer.key_id, now_us=0) is None
    assert (await here.me(mine)).status_code == 401
