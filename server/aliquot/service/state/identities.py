"""Identities: users and their API keys, and authentication by key. Maintained from the event log on every server.

An API key is `<id>.<secret>`; only the SHA-256 digest of the secret is stored. A secret is 256 random bits, so a slow
password hash would add no security.
"""

import secrets
from hashlib import sha256
from hmac import compare_digest
from typing import Final

from msgspec import Struct

from aliquot_schema.identity.accounts import KEY_PREFIX, ROLE_MAX, ApiKey, Role, User
from aliquot_schema.ids import KeyId, ProjectId, UserId

TEXT_CHARS_MAX: Final = 200
_SECRET_BYTES: Final = 32


def new_secret() -> str:
    """A random secret: 43 characters out of letters, digits, `-` and `_`."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def digest_of(secret: str) -> str:
    """SHA-256 of a secret, in hexadecimal."""
    return sha256(secret.encode()).hexdigest()


def is_secret(secret: str, *, digest: str) -> bool:
    """Whether a secret has this digest; compared in constant time."""
    return compare_digest(digest_of(secret), digest)


def shown(key_id: KeyId, *, secret: str) -> str:
    """The API key as text, as the user presents it."""
    return f"{key_id}.{secret}"


def parts(text: str) -> tuple[KeyId, str] | None:
    """Split a presented API key into (id, secret); None when it is malformed."""
    if len(text) > TEXT_CHARS_MAX or not text.isascii() or not text.startswith(KEY_PREFIX):
        return None
    key_id, _, secret = text.partition(".")
    return (KeyId(key_id), secret) if secret else None


class AuthenticatedCaller(Struct, frozen=True, kw_only=True):
    """An authenticated caller: by a valid API key, or by the server's own token."""

    user: UserId
    role: Role
    """The lower of the user's role and the highest role of the key's scope."""
    own_role: Role | None = None
    """The user's role, where it is higher than `role`; else None."""
    projects: tuple[ProjectId, ...] = ()
    key_id: KeyId | None = None
    """None = the server's own token."""
    expires_us: int | None = None
    sign_in_id: KeyId | None = None
    """The browser sign-in whose cookie was sent; None = no cookie was used."""


class Identities:
    """Users and their keys."""

    def __init__(self) -> None:
        self.users: dict[UserId, User] = {}
        self.keys: dict[KeyId, ApiKey] = {}
        self.subjects: dict[str, UserId] = {}
        """Users by their subject at the identity provider."""
        self.is_account_shared = False
        """Whether all users' jobs run as the agents' job user, see `share_account`."""

    def share_account(self) -> None:
        """Let the jobs of all users run as the agents' job user, as in `Trust.SHARED`."""
        self.is_account_shared = True

    def put_user(self, user: User) -> None:
        """Add or replace a user."""
        known = self.users.get(user.id)
        if known is not None and known.subject is not None and known.subject != user.subject:
            self.subjects.pop(known.subject, None)
        self.users[user.id] = user
        if user.subject is not None:
            self.subjects[user.subject] = user.id

    def by_subject(self, subject: str) -> User | None:
        """The user with this subject at the identity provider."""
        name = self.subjects.get(subject)
        return None if name is None else self.users.get(name)

    def owners_of(self, account: str) -> list[UserId]:
        """Users whose jobs run as this Unix account; without accounts of their own, users of the same name."""
        return sorted(user.id for user in self.users.values() if account == (user.unix_name or user.id))

    def is_disabled(self, name: UserId) -> bool:
        """Whether the user exists and is disabled."""
        user = self.users.get(name)
        return user is not None and user.disabled

    def put_key(self, key: ApiKey) -> None:
        """Add or replace a key."""
        self.keys[key.id] = key

    def has_ended(self, sign_in_id: KeyId) -> bool:
        """Whether a browser sign-in was ended by signing out."""
        return sign_in_id in self.keys

    def shown(self, text: str, *, now_us: int) -> AuthenticatedCaller | None:
        """The caller who presents this text; None when it is malformed, unknown, revoked or expired."""
        found = parts(text)
        key = None if found is None else self.keys.get(found[0])
        if found is None or key is None or not is_secret(found[1], digest=key.digest):
            return None
        return self.bearer(key.id, now_us=now_us)

    def bearer(self, key_id: KeyId, *, now_us: int) -> AuthenticatedCaller | None:
        """The caller behind a key; None when the key is unknown, revoked or expired, or its user is disabled."""
        key = self.keys.get(key_id)
        user = None if key is None else self.users.get(key.user)
        if key is None or user is None or user.disabled or not holds(key, now_us=now_us):
            return None
        role = min(user.role, ROLE_MAX[key.scope])
        return AuthenticatedCaller(
            user=user.id,
            role=role,
            own_role=user.role if role < user.role else None,
            projects=user.projects,
            key_id=key.id,
            expires_us=key.expires_us,
        )


def holds(key: ApiKey, *, now_us: int) -> bool:
    """Whether a key is neither revoked nor expired; its user may be disabled."""
    return key.revoked_us is None and (key.expires_us is None or now_us < key.expires_us)
