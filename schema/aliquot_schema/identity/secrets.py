"""Secrets: named values a user stores for their sessions. Values are never part of a record."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from msgspec import Struct, field

from aliquot_schema.ids import UserId

SECRET_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", re.ASCII)
FILE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)
VALUE_BYTES_MAX: Final = 32 * 1024
SECRETS_MAX: Final = 200
"""Secrets per user."""
SECRETS_OF_SESSION_MAX: Final = 32


class SecretUse(Struct, frozen=True, kw_only=True):
    """A secret of the owner that a session receives as an environment variable, a file, or both."""

    name: str
    as_env: str | None = None
    """The variable's name."""
    as_file: str | None = None
    """The file's name in the directory ALIQUOT_SECRETS_DIR."""


class SecretGrant(Struct, frozen=True, kw_only=True):
    """A secret for an agent. Its value exists only in memory and on the agent's connection, never in a file."""

    owner: UserId
    use: SecretUse
    value: str | None = None
    """None = unavailable, see `why_not`."""
    why_not: str | None = None
    """Why the value is unavailable; None = the secret does not exist any more."""

    def __repr__(self) -> str:
        return f"SecretGrant(owner={self.owner!r}, use={self.use!r})"  # without its value


class SecretNames(Struct, frozen=True, kw_only=True):
    """The event log's record of a user's secrets: names and times, never values."""

    id: UserId
    version: int = 0
    set_us: Mapping[str, int] = field(default_factory=dict)
    """Time of the last change, microseconds UTC, by name."""


class SecretView(Struct, frozen=True, kw_only=True):
    """A secret as listed for its owner: without its value."""

    name: str
    created_at: datetime
    changed_at: datetime


class SecretChanged(Struct, frozen=True, kw_only=True):
    """Result of `set_secret`."""

    secret: SecretView


class SecretDeleted(Struct, frozen=True, kw_only=True):
    """Result of `delete_secret`."""

    name: str
