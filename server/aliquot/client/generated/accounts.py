"""Accounts.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.enums import KeyScope, Role


class ApiKey(Struct, frozen=True, kw_only=True):
    """An API key. Its secret is shown once, on creation."""

    id: str
    """`key_...`; the bearer token begins with it."""
    version: int
    """Incremented by every change."""
    user: str
    """Its owner."""
    name: str
    """Its purpose."""
    scope: KeyScope
    """Upper bound on what it allows."""
    created_at: datetime
    """When it was created."""
    expires_at: datetime | None
    """When it expires; null = never."""
    revoked_at: datetime | None
    """When it was revoked."""
    is_valid: bool
    """Whether it is accepted now."""
    gpu_hours_max: float | None
    """Budget in GPU-hours, by price; null = no limit."""
    sessions_max: int | None
    """Budget in sessions; null = no limit."""
    gpu_hours: float
    """GPU-hours of its sessions, running ones included; 0 for a key without a budget."""
    submitted: int
    """Sessions submitted with it, each task of an array counted; 0 for a key without a budget."""
    dry_run_first: bool
    """Whether each request must be previewed within 10 minutes before it is submitted."""


class CreateApiKeyInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An API key to create."""

    user: str
    """Its owner."""
    name: str
    """Its purpose."""
    scope: KeyScope = KeyScope.SUBMIT
    """Upper bound on what it allows."""
    expires_in: float | None = None
    """Lifetime in seconds; null = until it is revoked."""
    gpu_hours_max: float | None = None
    """Budget in GPU-hours, by price; null = no limit."""
    sessions_max: int | None = None
    """Budget in sessions, each task of an array counted; null = no limit."""
    dry_run_first: bool = False
    """Whether each request must be previewed within 10 minutes before it is submitted."""


class CreateUserInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A user to create."""

    name: str
    """Name of the user: letters, digits and `. _ @ + -`."""
    role: Role = Role.USER
    """Role of the user."""
    unix_name: str | None = None
    """Unix account that the user's jobs run as."""
    projects: Sequence[str] | None = None
    """Projects the user is a member of."""


class DisableUserInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A user to disable."""

    name: str
    """Name of the user."""
    expected_version: int | None = None
    """Expected current version; fails with VersionConflict otherwise."""


class Me(Struct, frozen=True, kw_only=True):
    """The authenticated caller, with their rights under the key in use."""

    name: str
    """Name of the user."""
    role: Role
    """Effective role under this key."""
    projects: tuple[str, ...]
    """Projects the user is a member of."""
    unix_name: str | None
    """Unix account that the user's jobs run as."""
    key_id: str | None
    """The key in use, or a reference to a token of the OIDC provider; null for the server's own token."""


class UpdateUserInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Changes of a user. Null fields are unchanged."""

    name: str
    """Name of the user."""
    role: Role | None = None
    """Role of the user."""
    unix_name: str | None = None
    """Unix account that the user's jobs run as; empty = none."""
    projects: Sequence[str] | None = None
    """Projects the user is a member of; replaces the list."""
    disabled: bool | None = None
    """Whether the user's keys are rejected."""
    forget_identity: bool | None = None
    """Whether to unlink the identity at the OIDC provider; the next one that signs in under this name is linked."""
    expected_version: int | None = None
    """Expected current version; fails with VersionConflict otherwise."""


class User(Struct, frozen=True, kw_only=True):
    """A user."""

    name: str
    """Name of the user; owner of their sessions."""
    version: int
    """Incremented by every change; see `expected_version`."""
    role: Role
    """Role of the user."""
    unix_name: str | None
    """Unix account that the user's jobs run as."""
    projects: tuple[str, ...]
    """Projects the user is a member of."""
    disabled: bool
    """Whether the user's keys are rejected."""
    created_at: datetime
    """When the user was created."""
    changed_at: datetime
    """When the user was last changed."""
