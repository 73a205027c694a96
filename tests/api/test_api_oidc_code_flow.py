"""Browser sign-in with a provider: which of its answers are accepted, and which are refused."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from aliquot.api.oidc.code_flow import CodeFlow, CompletedSignIn, Discovery, FlowStart
from aliquot.api.oidc.jwks import ProviderKeys
from aliquot.api.oidc.tokens import Tokens
from aliquot_schema.errors import Unauthenticated
from oidc_server import OidcServer, oidc_server

pytestmark = pytest.mark.anyio

ISSUER: Final = "https://id.example.org"
KEY: Final = ec.generate_private_key(ec.SECP256R1())
BACK: Final = "https://gpus.example.org/login/provider/return"
HOUR_S: Final = 3600.0


@dataclass
class TestProvider:
    """A provider whose next identity token a test sets."""

    __test__ = False
    nonce: str = ""
    said: dict[str, Any] = field(default_factory=dict)
    described: dict[str, Any] = field(default_factory=dict)
    exchanged: list[dict[str, str]] = field(default_factory=list)

    async def fetch(
        self, address: str, *, form: dict[str, str] | None = None, authorization: str | None = None
    ) -> bytes:
        public: dict[str, Any] = ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
        if form is not None:
            assert authorization == "Basic ZGFzaGJvYXJkOmElMkZzZWNyZXQ="
            self.exchanged.append(form)
        names = {f"{name}_endpoint": f"{ISSUER}/{name}" for name in ("authorization", "token", "userinfo")}
        answers: dict[str, Any] = {
            "/.well-known/openid-configuration": {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys", **names},
            "/keys": {"keys": [public | {"kid": "first"}]},
            "/token": {"id_token": self._token(), "access_token": "opaque"},
            "/userinfo": {"sub": "4711", **self.described},
        }
        return json.dumps(answers[urlsplit(address).path]).encode()

    def _token(self) -> str:
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": "dashboard", "sub": "4711", "iat": now, "exp": now + 300, "nonce": self.nonce}
        return jwt.encode(claims | self.said, KEY, algorithm="ES256", headers={"kid": "first"})


@pytest.fixture
async def here() -> AsyncIterator[tuple[OidcServer, TestProvider, CodeFlow]]:
    there = TestProvider()
    keys = ProviderKeys(ISSUER, fetch=there.fetch)
    async with oidc_server(ISSUER, keys=keys, oidc_users="new") as running:
        flow = CodeFlow(
            Discovery(ISSUER, fetch=there.fetch),
            issuer=ISSUER,
            client_id="dashboard",
            client_secret="a/secret",
            tokens=Tokens(keys, issuer=ISSUER, audience="dashboard", leeway_s=0),
            door=running.authenticator,
            secret=b"the-servers-own-token",
            session_s=HOUR_S,
            fetch=there.fetch,
        )
        yield running, there, flow


def asked(start: FlowStart) -> dict[str, str]:
    """The query sent to the provider."""
    return {name: values[0] for name, values in parse_qs(urlsplit(start.address).query).items()}


async def finish(flow: CodeFlow, there: TestProvider, *, next_path: str = "/", **answer: str) -> CompletedSignIn:
    start = await flow.begin(redirect_uri=BACK, next_path=next_path)
    there.nonce = there.nonce or asked(start)["nonce"]
    given = {"state": asked(start)["state"], "code": "once"} | answer
    return await flow.finish(given, cookie=start.cookie, redirect_uri=BACK)


async def test_a_code_sign_in_lasts_longer_than_the_token(
    here: tuple[OidcServer, TestProvider, CodeFlow],
) -> None:
    running, there, flow = here
    there.described = {"preferred_username": "ann"}
    found = await finish(flow, there, next_path="/sessions?state=failed", iss=ISSUER)
    assert found.next_path == "/sessions?state=failed"
    now_us = int(time.time() * 1e6)
    bearer = running.authenticator.bearer(found.key_id, now_us=now_us + 3_000_000_000)
    assert bearer is not None
    assert bearer.user == "ann"
    assert running.authenticator.bearer(found.key_id, now_us=now_us + 3_700_000_000) is None
    sent = there.exchanged[0]
    assert (sent["redirect_uri"], sent["client_id"], sent["code"]) == (BACK, "dashboard", "once")
    assert len(sent["code_verifier"]) >= 43


@pytest.mark.parametrize(
    ("said", "answer", "message"),
    [
        ({}, {"state": "another"}, "not begun in this browser"),
        ({}, {"iss": "https://other.example"}, "another identity provider"),
        ({}, {"error": "access_denied"}, "access_denied"),
        ({}, {"code": ""}, "no code"),
        ({"nonce": "another"}, {}, "another sign-in"),
        ({"azp": "another"}, {}, "another sign-in"),
        ({"aud": "another"}, {}, "not valid"),
        ({"iss": "https://other.example"}, {}, "not valid"),
    ],
)
async def test_provider_answers_for_another_sign_in_are_refused(
    here: tuple[OidcServer, TestProvider, CodeFlow], said: dict[str, str], answer: dict[str, str], message: str
) -> None:
    _, there, flow = here
    there.said = {"preferred_username": "ann"} | said
    with pytest.raises(Unauthenticated, match=message):
        await finish(flow, there, **answer)


async def test_the_cookie_of_another_browser_is_refused(here: tuple[OidcServer, TestProvider, CodeFlow]) -> None:
    _, _, flow = here
    mine, other = [await flow.begin(redirect_uri=BACK, next_path="/") for _ in range(2)]
    given = {"state": asked(mine)["state"], "code": "once"}
    for cookie in (None, "", other.cookie, mine.cookie[:-2] + "AA"):
        with pytest.raises(Unauthenticated, match="not begun in this browser"):
            await flow.finish(given, cookie=cookie, redirect_uri=BACK)


@pytest.mark.parametrize(("ahead_s", "is_valid"), [(3.0, True), (-590.0, True), (-610.0, False)])
async def test_a_sign_in_can_be_finished_on_a_server_with_another_clock(
    here: tuple[OidcServer, TestProvider, CodeFlow], monkeypatch: pytest.MonkeyPatch, ahead_s: float, is_valid: bool
) -> None:
    _, there, flow = here
    there.said = {"preferred_username": "ann"}
    then_s = time.time() + ahead_s
    with monkeypatch.context() as patch:
        patch.setattr("itsdangerous.timed.time.time", lambda: then_s)
        start = await flow.begin(redirect_uri=BACK, next_path="/")
    there.nonce, given = asked(start)["nonce"], {"state": asked(start)["state"], "code": "once"}
    with nullcontext() if is_valid else pytest.raises(Unauthenticated, match="more than 10 minutes ago"):
        await flow.finish(given, cookie=start.cookie, redirect_uri=BACK)


async def test_user_info_of_another_subject_is_ignored(here: tuple[OidcServer, TestProvider, CodeFlow]) -> None:
    _, there, flow = here
    there.described = {"sub": "4712", "preferred_username": "bob"}
    with pytest.raises(Unauthenticated, match="no claim preferred_username"):
        await finish(flow, there)
