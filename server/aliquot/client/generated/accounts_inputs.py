"""Accounts inputs.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from collections.abc import Sequence

from msgspec import Struct

from aliquot.client.generated.enums import KeyScope, Role


class CreateApiKeyInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A new key."""

    user: str
    """Whose it is to be."""
    name: str
    """What it is for."""
    scope: KeyScope = KeyScope.SUBMIT
    """What it allows at most."""
    expires_in: float | None = None
    """Seconds; without them it holds until it is revoked."""


class CreateUserInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A new user."""

    name: str
    """Letters, digits and . _ @ + -"""
    role: Role = Role.USER
    """What the user may do."""
    unix_name: str | None = None
    """The Unix account that the user's jobs run as."""
    projects: Sequence[str] | None = None
    """Whose sessions the user takes part in."""


class DisableUserInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A user to disable."""

    name: str
    """Which one."""
    expected_version: int | None = None
    """Refuse if it is not at this version."""


class UpdateUserInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Changes of a user."""

    name: str
    """Which one."""
    role: Role | None = None
    """What the user may do."""
    unix_name: str | None = None
    """The Unix account that the user's jobs run as; empty is none."""
    projects: Sequence[str] | None = None
    """All of them, in place of those before."""
    disabled: bool | None = None
    """Whether nobody comes in by the user's keys."""
    forget_identity: bool | None = None
    """Whether who this was at the identity provider counts no more: whoever comes next under the name is this user."""
    expected_version: int | None = None
    """Refuse if it is not at this version."""
