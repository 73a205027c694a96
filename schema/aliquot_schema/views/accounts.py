"""Read models of users and API keys, and requests to change them. Times are aware UTC, durations seconds."""

from datetime import datetime

from msgspec import Struct

from aliquot_schema.identity.accounts import KeyScope, Role


class UserView(Struct, frozen=True, kw_only=True):
    """A user."""

    name: str
    version: int
    role: Role
    unix_name: str | None
    projects: tuple[str, ...]
    disabled: bool
    created_at: datetime
    changed_at: datetime


class MeView(Struct, frozen=True, kw_only=True):
    """The caller, and their rights with the key in use."""

    name: str
    role: Role
    projects: tuple[str, ...]
    unix_name: str | None
    key_id: str | None
    """The key in use; for an OIDC token, its pseudo-key. None = the server's own token."""


class ApiKeyView(Struct, frozen=True, kw_only=True):
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
    """Whether it is accepted now."""
    gpu_hours_max: float | None = None
    """Budget; None = no limit."""
    sessions_max: int | None = None
    gpu_hours: float = 0.0
    """Used by its sessions, running ones included; counted for keys with a budget."""
    submitted: int = 0
    """Sessions, each task of an array counted; counted for keys with a budget."""
    dry_run_first: bool = False


class NewUser(Struct, frozen=True, kw_only=True):
    """A user to create, not validated."""

    name: str
    role: Role
    unix_name: str | None = None
    projects: tuple[str, ...] = ()


class UserChanges(Struct, frozen=True, kw_only=True):
    """Changes of a user; None = unchanged."""

    role: Role | None = None
    unix_name: str | None = None
    """Empty = removed."""
    projects: tuple[str, ...] | None = None
    disabled: bool | None = None
    forget_identity: bool = False
    """Unlink the OIDC identity; the next one that signs in under this name is linked."""


class NewApiKey(Struct, frozen=True, kw_only=True):
    """A key to create, not validated."""

    user: str
    name: str
    scope: KeyScope
    expires_in: float | None = None
    """Seconds; None = never."""
    gpu_hours_max: float | None = None
    sessions_max: int | None = None
    dry_run_first: bool = False


class UserChanged(Struct, frozen=True, kw_only=True):
    """Result of a mutation of a user."""

    user: UserView
    revision: int
    jobs_run_as: str | None = None
    """Which Unix account the user's jobs run as, as a sentence; None = the user submits none."""
    warning: str | None = None
    """That the account is missing on a host."""


class ApiKeyCreated(Struct, frozen=True, kw_only=True):
    """A new key with its secret, which is not shown again."""

    api_key: ApiKeyView
    secret: str
    """The complete bearer token."""
    revision: int


class ApiKeyRevoked(Struct, frozen=True, kw_only=True):
    """A revoked key."""

    api_key: ApiKeyView
    revision: int


class CalendarFeedView(Struct, frozen=True, kw_only=True):
    """Secret addresses of a calendar feed, from the server's root; they are not shown again."""

    mine: str
    """Bookings of the user."""
    all: str
    """Bookings of all users."""
