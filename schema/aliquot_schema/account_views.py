"""Read models of accounts, and requests about them as they came in. Times are aware UTC, durations seconds."""

from dataclasses import dataclass
from datetime import datetime

from aliquot_schema.roles import KeyScope, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class UserView:
    """Somebody who may come in."""

    name: str
    version: int
    role: Role
    unix_name: str | None
    projects: tuple[str, ...]
    disabled: bool
    created_at: datetime
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MeView:
    """Who asks, and what he may do by the key that he shows."""

    name: str
    role: Role
    projects: tuple[str, ...]
    unix_name: str | None
    key_id: str | None
    """Of a token of the identity provider: what stands for it. None = by the server's own token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyView:
    """A key, without its secret."""

    id: str
    version: int
    user: str
    name: str
    scope: KeyScope
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    is_valid: bool
    """Whether somebody comes in by it now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUser:
    """A user as asked for: nothing is validated yet."""

    name: str
    role: Role
    unix_name: str | None = None
    projects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserChanges:
    """What changes of a user; None = it stays as it is."""

    role: Role | None = None
    unix_name: str | None = None
    """Empty = none any more."""
    projects: tuple[str, ...] | None = None
    disabled: bool | None = None
    forget_identity: bool = False
    """Whoever comes next under the name, by a token of the identity provider, is this user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApiKey:
    """A key as asked for."""

    user: str
    name: str
    scope: KeyScope
    expires_in: float | None = None
    """Seconds; None = never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserChanged:
    """What a mutation did to a user."""

    user: UserView
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyCreated:
    """A new key, and the only sight of its secret."""

    api_key: ApiKeyView
    secret: str
    """The whole text that is shown to come in."""
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyRevoked:
    """A key that lets nobody in any more."""

    api_key: ApiKeyView
    revision: int
