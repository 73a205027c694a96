"""The door for tokens of the provider: each is looked at once in a while, and then stands for somebody until its end.

Who has come in is told on by a reference that stands where a key's id does. It says all that the token gave, so that
whatever was opened by it (a socket, a browser's cookie) holds at every server, and no longer than the token; whether
the user is disabled, and what he may do, is looked up whenever it is asked.
"""

import base64
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Final, TypeVar

import msgspec

from aliquot.api.oidc.claims import identity_of
from aliquot.api.oidc.oidc_settings import OidcSettings
from aliquot.api.oidc.tokens import Tokens, is_token
from aliquot.service.accounts.federation import Federation, Identity
from aliquot.service.people import Bearer, People
from aliquot_schema.errors import AliquotError, Unauthenticated
from aliquot_schema.ids import KeyId, ProjectId
from aliquot_schema.roles import Role

T = TypeVar("T")

PREFIX: Final = "oidc_"
LOOKED_AT_S: Final = 300.0
"""For so long a token is not looked at again: its key may be withdrawn meanwhile, or its owner's groups changed."""
KEPT: Final = 4096
END_S_MAX: Final = 2**33
"""Seconds since the epoch: the end of tokens that never end."""


class _Given(msgspec.Struct, frozen=True, array_like=True):
    """What a token gave."""

    subject: str
    """`<issuer>#<sub>`: which user that is now, if any, is looked up."""
    expires_us: int
    role: int | None
    """The highest role in which it acts; None = the user's own."""
    projects: tuple[str, ...] | None


class OidcDoor:
    """Knows who shows which token.

    Args:
        monotonic: seconds from some start.
    """

    def __init__(
        self,
        tokens: Tokens,
        *,
        terms: OidcSettings,
        federation: Federation,
        people: People,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tokens = tokens
        self._terms = terms
        self._federation = federation
        self._people = people
        self._monotonic = monotonic
        self._found: dict[bytes, tuple[float, KeyId]] = {}
        """By the digest of a token: until when it is known, and what it is."""
        self._refused: dict[bytes, str] = {}
        """What stands against tokens. They are apart: whoever has none that holds drives out nobody's that does."""

    async def look_at(self, text: str) -> None:
        """Have a token looked at, so that `shown` knows of it. Never refuses by itself."""
        if not is_token(text):
            return
        digest = sha256(text.encode()).digest()
        until, _ = self._found.get(digest, (0.0, None))
        if until > self._monotonic():
            return
        try:
            reference = await self._reference(text)
        except AliquotError as error:
            self._found.pop(digest, None)
            # It may hold what the token says, which need not be text that can be sent.
            _keep(self._refused, digest, error.message.encode(errors="replace").decode())
        else:
            self._refused.pop(digest, None)
            _keep(self._found, digest, (self._monotonic() + LOOKED_AT_S, reference))

    def shown(self, text: str, *, now_us: int) -> Bearer | None:
        """Who shows a token that was looked at; None when it is no such token.

        Raises:
            Unauthenticated: it does not hold; the message says why.
        """
        if not is_token(text):
            return None
        digest = sha256(text.encode()).digest()
        if digest not in self._found:
            raise Unauthenticated(self._refused.get(digest, "The token was not looked at; try again."))
        bearer = self.bearer(self._found[digest][1], now_us=now_us)
        if bearer is None:
            raise Unauthenticated("The token is too old, or whose it is may not come in any more; get a new one.")
        return bearer

    def bearer(self, reference: KeyId, *, now_us: int) -> Bearer | None:
        """Who has come in by a token that is not at its end; None when he may not be here any more."""
        given = _read(reference)
        if given is None or given.expires_us <= now_us or not given.subject.startswith(f"{self._terms.oidc_issuer}#"):
            return None
        user = self._people.known_as(given.subject)
        if user is None or user.disabled:
            return None
        projects = user.projects
        if given.projects is not None:
            projects = tuple(project for project in projects if project in given.projects)
        role = user.role if given.role is None else min(user.role, Role(given.role))
        return Bearer(user=user.id, role=role, projects=projects, key_id=reference, expires_us=given.expires_us)

    async def _reference(self, text: str) -> KeyId:
        claims = await self._tokens.claims(text)
        identity = identity_of(claims, self._terms)
        await self._federation.user_of(identity)
        end_s = min(int(claims["exp"]), END_S_MAX)
        return _written(identity, expires_us=int((end_s + self._terms.oidc_leeway_s) * 1e6))


def _keep(known: dict[bytes, T], digest: bytes, what: T) -> None:
    known.pop(digest, None)
    while len(known) >= KEPT:
        known.pop(next(iter(known)))
    known[digest] = what


def _written(identity: Identity, *, expires_us: int) -> KeyId:
    role = int(identity.role) if identity.has_role and identity.role is not None else None
    projects = identity.projects and tuple(map(ProjectId, identity.projects))
    given = msgspec.json.encode(_Given(identity.subject, expires_us, role, projects))
    return KeyId(PREFIX + base64.urlsafe_b64encode(given).decode().rstrip("="))


def _read(reference: str) -> _Given | None:
    """What a reference says; None when it is none. References come from this server itself, or out of its signed
    cookies."""
    if not reference.startswith(PREFIX):
        return None
    text = reference.removeprefix(PREFIX)
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Given)
    except (ValueError, msgspec.MsgspecError):
        return None
