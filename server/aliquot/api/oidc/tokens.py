"""Provider tokens: verifies a token, maps its claims to a user, and remembers the result for five minutes.

A verified token becomes a reference that is used like a key id. It contains everything that the token granted, so that
a socket or cookie opened with it is valid on every server, and no longer than the token. Whether the user is disabled,
and the user's rights, are read at every use.

Source: RFC 7519; RFC 8725 (the server chooses the algorithms, never the token).
"""

import base64
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, TypeVar

import jwt
import msgspec
from jwt.exceptions import ExpiredSignatureError, InvalidTokenError, PyJWTError

from aliquot.api.oidc.jwks import KINDS, ProviderKeys
from aliquot.api.oidc.settings import OidcSettings
from aliquot.service.accounts.federation import Federation, Identity
from aliquot.service.state.identities import AuthenticatedCaller, Identities
from aliquot_schema.errors import AliquotError, Unauthenticated
from aliquot_schema.identity.accounts import Role
from aliquot_schema.ids import KeyId, ProjectId

TEXT_CHARS_MAX: Final = 16 * 1024
SUBJECT_CHARS_MAX: Final = 255
"""Source: OpenID Connect Core 1.0, 2."""
_NEEDED: Final = ["exp", "iss", "aud", "sub"]

Claims = Mapping[str, object]
T = TypeVar("T")
PREFIX: Final = "oidc_"
CACHED_S: Final = 300.0
"""Validity of a cached result: the key may be withdrawn, or the groups may change."""
CACHED_MAX: Final = 4096
END_S_MAX: Final = 2**33
"""Seconds since the epoch; the end of tokens that never expire."""


def is_token(text: str) -> bool:
    """Whether a text has the form of a provider token; keys of this server never do."""
    return text.count(".") == 2 and len(text) <= TEXT_CHARS_MAX and text.isascii()


class Tokens:
    """Verifies tokens.

    Args:
        audience: required audience.
        leeway_s: allowed clock difference.
    """

    def __init__(self, keys: ProviderKeys, *, issuer: str, audience: str, leeway_s: float) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._leeway_s = leeway_s

    async def claims(self, text: str) -> dict[str, Any]:
        """The claims of a valid token; `iss` and `sub` are strings, `exp` is a number.

        Raises:
            Unauthenticated: the token is not valid.
        """
        algorithm, kid = _head(text)
        key = await self._keys.key(kid, algorithm)
        try:
            claims = jwt.decode(
                text,
                key,
                algorithms=[algorithm],
                audience=self._audience,
                issuer=self._issuer,
                leeway=self._leeway_s,
                options={"require": _NEEDED, "enforce_minimum_key_length": True},
            )
        except ExpiredSignatureError:
            raise Unauthenticated("The token has expired; get a new one from the identity provider.") from None
        except (PyJWTError, ValueError, OverflowError) as error:
            raise Unauthenticated(f"The token of the identity provider is not valid: {error}.") from None
        if not _is_name(claims["sub"]):
            raise Unauthenticated(f"The token's claim sub must be 1 to {SUBJECT_CHARS_MAX} printable characters.")
        return claims


def _is_name(subject: str) -> bool:
    """Whether any database can store it; providers issue no others."""
    return 0 < len(subject) <= SUBJECT_CHARS_MAX and subject.isprintable()


def _head(text: str) -> tuple[str, str | None]:
    """(algorithm, key id). The header is not signed; it only selects among accepted algorithms."""
    try:
        head = jwt.get_unverified_header(text)
    except (InvalidTokenError, RecursionError):
        raise Unauthenticated("The token cannot be read.") from None
    algorithm, kid = head.get("alg"), head.get("kid")
    if not isinstance(algorithm, str) or algorithm not in KINDS:
        raise Unauthenticated(
            f"Tokens signed by {ascii(algorithm)[:24]} are not accepted; accepted: {', '.join(KINDS)}."
        )
    return algorithm, kid if isinstance(kid, str) else None


def identity_of(claims: Claims, terms: OidcSettings) -> Identity:
    """The identity in the claims of a valid token.

    Raises:
        Unauthenticated: a required claim is missing.
    """
    groups = _groups(claims, terms.oidc_groups_claim)
    found = [Role[role.upper()] for group, role in terms.oidc_roles.items() if group in groups]
    issued = claims.get("iat")
    return Identity(
        subject=f"{claims['iss']}#{claims['sub']}",
        name=_name(claims, terms.oidc_name_claim),
        role=max(found, default=_default_role(terms)),
        has_role=bool(terms.oidc_roles),
        projects=_projects(groups, terms.oidc_projects) if terms.oidc_projects else None,
        unix_name=_text(claims, terms.oidc_unix_claim) if terms.oidc_unix_claim else None,
        issued_us=int(issued * 1_000_000) if isinstance(issued, int | float) else 0,
    )


def _default_role(terms: OidcSettings) -> Role | None:
    return None if terms.oidc_default_role == "nobody" else Role[terms.oidc_default_role.upper()]


def _name(claims: Claims, claim: str) -> str:
    name = _text(claims, claim)
    if name is None:
        known = ", ".join(sorted(key[:40] for key in claims)[:32])
        raise Unauthenticated(f"The token has no claim {claim}, which names the user; it has {known}.")
    if claim == "email" and claims.get("email_verified") is not True:
        raise Unauthenticated("The token has no email_verified, so its email cannot name the user.")
    return name


def _projects(groups: frozenset[str], projects: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted({project for group, project in projects.items() if group in groups}))


def _groups(claims: Claims, claim: str) -> frozenset[str]:
    found = _found(claims, claim)
    return frozenset(item for item in found if isinstance(item, str)) if isinstance(found, list) else frozenset()


def _text(claims: Claims, claim: str) -> str | None:
    found = _found(claims, claim)
    return found if isinstance(found, str) and found else None


def _found(claims: Claims, claim: str) -> object:
    """A claim by its name, which may contain dots, or else by its path."""
    if claim in claims:
        return claims[claim]
    found: object = claims
    for part in claim.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


class _TokenGrant(msgspec.Struct, frozen=True, array_like=True):
    """What a token granted."""

    subject: str
    """`<issuer>#<sub>`; the user is looked up by it."""
    expires_us: int
    role: int | None
    """The highest role; None = the user's own."""
    projects: tuple[str, ...] | None


class OidcAuthenticator:
    """Authenticates bearers of provider tokens."""

    def __init__(self, tokens: Tokens, *, terms: OidcSettings, federation: Federation, people: Identities) -> None:
        self._tokens = tokens
        self._terms = terms
        self._federation = federation
        self._people = people
        self._found: dict[bytes, tuple[float, KeyId]] = {}
        """By the digest of a token: end of the cached result, and the reference."""
        self._refused: dict[bytes, str] = {}
        """Reasons of rejection, in a cache of their own, so that invalid tokens cannot evict valid ones."""

    async def resolve(self, text: str) -> None:
        """Validate a token, so that `bearer_of` knows the result. Never raises."""
        if not is_token(text):
            return
        digest = sha256(text.encode()).digest()
        until, _ = self._found.get(digest, (0.0, None))
        if until > time.monotonic():
            return
        try:
            reference = await self._reference(text)
        except AliquotError as error:
            self._found.pop(digest, None)
            # It may quote the token, which need not be encodable text.
            _keep(self._refused, digest, error.message.encode(errors="replace").decode())
        else:
            self._refused.pop(digest, None)
            _keep(self._found, digest, (time.monotonic() + CACHED_S, reference))

    def bearer_of(self, text: str, *, now_us: int) -> AuthenticatedCaller | None:
        """The bearer of a validated token; None when the text is not such a token.

        Raises:
            Unauthenticated: the token is not valid; the message says why.
        """
        if not is_token(text):
            return None
        digest = sha256(text.encode()).digest()
        if digest not in self._found:
            raise Unauthenticated(self._refused.get(digest, "The token was not validated yet; try again."))
        bearer = self.bearer(self._found[digest][1], now_us=now_us)
        if bearer is None:
            raise Unauthenticated("The token has expired, or its user has no access any more; get a new one.")
        return bearer

    def bearer(self, reference: KeyId, *, now_us: int) -> AuthenticatedCaller | None:
        """The bearer behind a reference; None when the token has expired or the user has no access any more."""
        grant = _read(reference)
        if grant is None or grant.expires_us <= now_us or not grant.subject.startswith(f"{self._terms.oidc_issuer}#"):
            return None
        user = self._people.by_subject(grant.subject)
        if user is None or user.disabled:
            return None
        projects = user.projects
        if grant.projects is not None:
            projects = tuple(project for project in projects if project in grant.projects)
        role = user.role if grant.role is None else min(user.role, Role(grant.role))
        return AuthenticatedCaller(
            user=user.id, role=role, projects=projects, key_id=reference, expires_us=grant.expires_us
        )

    async def admit(self, claims: Claims, *, expires_us: int) -> KeyId:
        """A reference to what the claims of a valid token grant; its user is created or updated if needed.

        Raises:
            Unauthenticated: access denied; the message says why.
            Unavailable: the store cannot be written now.
        """
        identity = identity_of(claims, self._terms)
        await self._federation.user_of(identity)
        return _written(identity, expires_us=expires_us)

    async def _reference(self, text: str) -> KeyId:
        claims = await self._tokens.claims(text)
        end_s = min(int(claims["exp"]), END_S_MAX)
        return await self.admit(claims, expires_us=int((end_s + self._terms.oidc_leeway_s) * 1e6))


def _keep(known: dict[bytes, T], digest: bytes, what: T) -> None:
    known.pop(digest, None)
    while len(known) >= CACHED_MAX:
        known.pop(next(iter(known)))
    known[digest] = what


def _written(identity: Identity, *, expires_us: int) -> KeyId:
    role = int(identity.role) if identity.has_role and identity.role is not None else None
    projects = identity.projects and tuple(map(ProjectId, identity.projects))
    grant = msgspec.json.encode(_TokenGrant(identity.subject, expires_us, role, projects))
    return KeyId(PREFIX + base64.urlsafe_b64encode(grant).decode().rstrip("="))


def _read(reference: str) -> _TokenGrant | None:
    """The content of a reference; None when it is malformed. References come from this server or its signed cookies."""
    if not reference.startswith(PREFIX):
        return None
    text = reference.removeprefix(PREFIX)
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_TokenGrant)
    except (ValueError, msgspec.MsgspecError):
        return None
