"""Hostile tokens: any not signed by the provider, for this server and time, is refused."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
import warnings
from collections.abc import Callable
from typing import Any, Final

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from jwt.warnings import InsecureKeyLengthWarning
from pydantic import ValidationError

from aliquot.api.oidc.jwks import KEPT_S, PAUSE_S, STALE_S, ProviderKeys, fetched
from aliquot.api.oidc.settings import OidcSettings
from aliquot.api.oidc.tokens import Tokens, identity_of, is_token
from aliquot_schema.errors import Unauthenticated

pytestmark = pytest.mark.anyio

DAY_S: Final = 86_400
"""Tokens are made at collection, and may be read much later."""
NOW: Final = int(time.time())
ISSUER: Final = "https://id.example.org"
RSA_KEY: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY: Final = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY: Final = ec.generate_private_key(ec.SECP256R1())
SHORT_KEY: Final = rsa.generate_private_key(public_exponent=65537, key_size=1024)
PEM: Final = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
SECRET: Final = base64.urlsafe_b64encode(b"a secret of 32 bytes and no less").decode().rstrip("=")


def public(key: Any, **more: Any) -> dict[str, Any]:
    kind = ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else RSAAlgorithm
    found: dict[str, Any] = kind.to_jwk(key.public_key(), as_dict=True)
    return found | more


KEYS: Final = [
    public(RSA_KEY, kid="rsa"),
    public(EC_KEY, kid="ec", alg="ES256", use="sig"),
    public(OTHER_KEY, kid="enc", use="enc"),
    public(SHORT_KEY, kid="short"),
    {"kty": "oct", "kid": "shared", "k": SECRET},
    {"kty": "RSA", "kid": "broken", "n": "!", "e": "AQAB"},
    "no key at all",
]


class Place:
    """The provider's answers, and a request count."""

    def __init__(self, *, keys: Any = KEYS, told: Any = None) -> None:
        self.keys = keys
        self.told = told or {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"}
        self.asked = 0
        self.is_away = False

    async def __call__(self, address: str) -> bytes:
        self.asked += 1
        if self.is_away:
            raise ValueError("away")
        return json.dumps({"keys": self.keys} if address.endswith("/keys") else self.told).encode()


def tokens(place: Place | None = None, *, monotonic: Callable[[], float] = lambda: 0.0) -> Tokens:
    keys = ProviderKeys(ISSUER, fetch=place or Place(), monotonic=monotonic)
    return Tokens(keys, issuer=ISSUER, audience="aliquot", leeway_s=30)


def claims(**more: Any) -> dict[str, Any]:
    now = int(time.time())
    said = {"iss": ISSUER, "aud": "aliquot", "sub": "4711", "iat": now, "exp": now + DAY_S, "preferred_username": "ann"}
    return {name: value for name, value in (said | more).items() if value is not None}


def signed(key: Any = RSA_KEY, algorithm: str = "RS256", kid: str | None = "rsa", **said: Any) -> str:
    with warnings.catch_warnings(category=InsecureKeyLengthWarning, action="ignore"):
        return jwt.encode(claims(**said), key, algorithm=algorithm, headers={} if kid is None else {"kid": kid})


def by_hand(head: Any, body: Any, signature: bytes = b"") -> str:
    parts = [json.dumps(head).encode(), json.dumps(body).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def hmac_with_public_key() -> str:
    """The public key as an HMAC secret; PyJWT refuses to sign so."""
    unsigned = by_hand({"alg": "HS256", "kid": "rsa", "typ": "JWT"}, claims())[:-1]
    digest = hmac.new(PEM, unsigned.encode(), hashlib.sha256).digest()
    return f"{unsigned}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


@pytest.mark.parametrize(
    "text",
    [signed(), signed(EC_KEY, "ES256", "ec"), signed(RSA_KEY, "PS256"), signed(EC_KEY, "ES256", None)],
    ids=["RS256", "ES256", "PS256", "the only one that it can be"],
)
async def test_tokens_signed_by_the_provider_are_valid(text: str) -> None:
    assert is_token(text)
    assert (await tokens().claims(text))["sub"] == "4711"


HOSTILE: Final = {
    "alg none": by_hand({"alg": "none", "typ": "JWT"}, claims()),
    "alg None": by_hand({"alg": "None", "kid": "rsa"}, claims()),
    "no alg": by_hand({"kid": "rsa"}, claims()),
    "alg that is a list": by_hand({"alg": ["RS256"], "kid": "rsa"}, claims()),
    "HS256 with the public key": hmac_with_public_key(),
    "HS256 with a secret that the provider lists": signed(SECRET.encode(), "HS256", "shared"),
    "signed by somebody else": signed(OTHER_KEY, "ES256", "ec"),
    "signed by a key that is not for signing": signed(OTHER_KEY, "ES256", "enc"),
    "signed by a key that is too short": signed(SHORT_KEY, "RS256", "short"),
    "a key that cannot be read": signed(kid="broken"),
    "no kid where it can be several": signed(kid=None),
    "a key of another kind": signed(EC_KEY, "ES256", "rsa"),
    "a curve of another kind": by_hand({"alg": "ES384", "kid": "ec"}, claims(), b"x" * 96),
    "unknown kid": signed(kid="who"),
    "kid that is a number": by_hand({"alg": "RS256", "kid": 7}, claims(), b"x"),
    "no signature": signed().rpartition(".")[0] + ".",
    "another body": ".".join(
        [signed().split(".")[0], by_hand({}, claims(sub="1")).split(".")[1], signed().split(".")[2]]
    ),
    "another audience": signed(aud="mail"),
    "an audience that only begins so": signed(aud="aliquot2"),
    "no audience": signed(aud=None),
    "another issuer": signed(iss="https://id.example.com"),
    "an issuer with a slash more": signed(iss=f"{ISSUER}/"),
    "no issuer": signed(iss=None),
    "expired": signed(exp=NOW - 31),
    "no end": signed(exp=None),
    "an end that is text": signed(exp="tomorrow"),
    "not yet": signed(nbf=NOW + DAY_S),
    "made tomorrow": signed(iat=NOW + DAY_S),
    "nobody's": signed(sub=None),
    "an empty name": signed(sub=""),
    "a name that is too long to be kept": signed(sub="x" * 256),
    "a name that no database takes": signed(sub="4711\0"),
    "a list": by_hand({"alg": "RS256", "kid": "rsa"}, [1]),
    "deep": by_hand({"alg": "RS256", "kid": "rsa", "x": [[[[]]]]}, {}) + "e" * 1000,
    "no text": "..",
    "rubbish": "eyJ.eyJ.eyJ",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
async def test_tokens_not_signed_for_this_server_and_time_are_refused(text: str) -> None:
    with pytest.raises(Unauthenticated):
        await tokens().claims(text)


async def test_malformed_and_oversized_texts_are_not_tokens() -> None:
    for text in ("key_1.secret", "a" * 20_000 + ".b.c", "ä.b.c", ""):
        assert not is_token(text)


async def test_a_token_that_expired_within_the_leeway_is_valid() -> None:
    assert await tokens().claims(signed(exp=int(time.time()) - 5))


async def test_tokens_with_unknown_keys_query_the_provider_only_once_per_pause() -> None:
    now, place = 0.0, Place()
    read = tokens(place, monotonic=lambda: now)
    for number in range(500):
        with pytest.raises(Unauthenticated):
            await read.claims(signed(EC_KEY, "ES256", f"made up {number}"))
    assert place.asked == 2, "once, for where the keys are and for the keys"
    assert await read.claims(signed())
    now += PAUSE_S
    for number in range(5):
        with pytest.raises(Unauthenticated):
            await read.claims(signed(EC_KEY, "ES256", f"made up {number}"))
    assert place.asked == 4


async def test_provider_keys_are_refreshed_and_kept_for_a_time_while_the_provider_is_away() -> None:
    now, place = 0.0, Place()
    read = tokens(place, monotonic=lambda: now)
    assert await read.claims(signed())
    place.is_away = True
    now += KEPT_S + 1
    assert await read.claims(signed())
    now += STALE_S
    with pytest.raises(Unauthenticated, match="cannot be fetched"):
        await read.claims(signed())
    place.is_away, place.keys = False, [public(EC_KEY, kid="ec")]
    now += PAUSE_S
    assert await read.claims(signed(EC_KEY, "ES256", "ec"))
    with pytest.raises(Unauthenticated):
        await read.claims(signed())


async def test_tokens_with_known_keys_do_not_wait_for_a_slow_provider() -> None:
    now, place, asked, may_go_on = 0.0, Place(), asyncio.Event(), asyncio.Event()

    async def slow(address: str) -> bytes:
        if now:
            asked.set()
            await may_go_on.wait()
        return await place(address)

    keys = ProviderKeys(ISSUER, fetch=slow, monotonic=lambda: now)
    read = Tokens(keys, issuer=ISSUER, audience="aliquot", leeway_s=30)
    assert await read.claims(signed())
    now = KEPT_S + 1
    first = asyncio.create_task(read.claims(signed()))
    async with asyncio.timeout(60):
        await asked.wait()
        assert await read.claims(signed())
    assert not first.done()
    may_go_on.set()
    assert await first


@pytest.mark.parametrize("project", ["default", "a/b", ""])
def test_group_settings_with_invalid_projects_are_refused(project: str) -> None:
    with pytest.raises(ValidationError, match="projects"):
        OidcSettings(oidc_projects={"all": project})


@pytest.mark.parametrize(
    "told",
    [
        {"issuer": "https://other.example.org", "jwks_uri": f"{ISSUER}/keys"},
        {"issuer": ISSUER, "jwks_uri": "http://id.example.org/keys"},
        {"issuer": ISSUER, "jwks_uri": "file:///etc/passwd/keys"},
        {"issuer": ISSUER, "jwks_uri": f"{ISSUER}:x/keys"},
        {"issuer": ISSUER},
        [1],
    ],
    ids=["another name", "keys in the clear", "keys in a file", "keys at no address", "no keys", "a list"],
)
async def test_an_incomplete_provider_configuration_is_refused(told: Any) -> None:
    with pytest.raises(Unauthenticated, match="cannot be fetched"):
        await tokens(Place(told=told)).claims(signed())


async def test_an_invalid_provider_url_is_a_value_error() -> None:
    for address in ("https://\u00e4..org/keys", "https://id.example.org/\x01"):
        with pytest.raises(ValueError, match="is not a URL"):
            await fetched(address)


def test_nested_claims_are_read_and_the_highest_role_applies() -> None:
    terms = OidcSettings(
        oidc_groups_claim="realm_access.roles",
        oidc_roles={"all": "user", "ops": "operator"},
        oidc_projects={"all": "shared", "x": "secret"},
        oidc_unix_claim="posix",
    )
    found = identity_of(claims(realm_access={"roles": ["ops", "all", 7]}, posix="ann1"), terms)
    assert (found.role.name, found.has_role, found.projects, found.unix_name) == ("OPERATOR", True, ("shared",), "ann1")
    flat = OidcSettings(oidc_groups_claim="https://example.org/groups", oidc_roles={"all": "user"})
    assert identity_of(claims(**{"https://example.org/groups": ["all"]}), flat).role.name == "USER"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"oidc_name_claim": "email"}, {"email": "ann@example.org"}),
        ({"oidc_name_claim": "email"}, {"email": "ann@example.org", "email_verified": "true"}),
        ({"oidc_name_claim": "nickname"}, {}),
    ],
)
def test_tokens_without_a_usable_user_name_are_refused(settings: dict[str, Any], said: dict[str, Any]) -> None:
    with pytest.raises(Unauthenticated):
        identity_of(claims(**said), OidcSettings(**settings))


@pytest.mark.parametrize("groups", [["none"], "all", None])
def test_a_user_without_a_mapped_group_has_no_role(groups: object) -> None:
    terms = OidcSettings(oidc_default_role="nobody", oidc_roles={"all": "user"})
    assert identity_of(claims(groups=groups), terms).role is None
