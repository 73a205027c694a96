"""Accounts.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.enums import KeyScope, Role


class ApiKey(Struct, frozen=True, kw_only=True):
    """A key of a user. The secret is shown once, when it is made."""

    id: str
    """`key_...`; what is shown to come in begins with it."""
    version: int
    """Counts its changes."""
    user: str
    """Whose it is."""
    name: str
    """What it is for."""
    scope: KeyScope
    """What it allows at most."""
    created_at: datetime
    """When it was made."""
    expires_at: datetime | None
    """When it ends by itself; null is never."""
    revoked_at: datetime | None
    """When it was revoked."""
    is_valid: bool
    """Whether somebody comes in by it now."""


class Me(Struct, frozen=True, kw_only=True):
    """Who asks, and what the key allows that was shown."""

    name: str
    """The user."""
    role: Role
    """What may be done by this key."""
    projects: tuple[str, ...]
    """Whose sessions the user takes part in."""
    unix_name: str | None
    """The Unix account that the user's jobs run as."""
    key_id: str | None
    """The key, or what stands for a token of the identity provider; null for the server's own token."""


class User(Struct, frozen=True, kw_only=True):
    """Somebody who may come in, by keys."""

    name: str
    """The name, which sessions are owned by."""
    version: int
    """Counts its changes; for `expected_version`."""
    role: Role
    """What the user may do."""
    unix_name: str | None
    """The Unix account that the user's jobs run as."""
    projects: tuple[str, ...]
    """Whose sessions the user takes part in."""
    disabled: bool
    """Whether nobody comes in by the user's keys."""
    created_at: datetime
    """When the user was made."""
    changed_at: datetime
    """When the user was changed last."""
