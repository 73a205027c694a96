"""Secrets: what a user stores for sessions, and how a session is given it. Values are never part of a record."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from aliquot_schema.ids import UserId

SECRET_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", re.ASCII)
FILE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)
VALUE_BYTES_MAX: Final = 32 * 1024
SECRETS_MAX: Final = 200
"""Of one user."""
SECRETS_OF_SESSION_MAX: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretUse:
    """A secret of its owner that a session is given: as a variable, as a file, or both."""

    name: str
    as_env: str | None = None
    """The variable's name."""
    as_file: str | None = None
    """The file's name, in the folder that ALIQUOT_SECRETS_DIR names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretGrant:
    """A secret on its way to an agent. The value is in memory and on the agent's connection, and in no file."""

    owner: UserId
    use: SecretUse
    value: str | None = field(default=None, repr=False)
    """None = it cannot be given."""
    why_not: str | None = None
    """Why not, in words; None = there is none of that name any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretNames:
    """What the log tells of somebody's secrets: that they were set and deleted, and never what they are."""

    id: UserId
    version: int = 0
    set_us: Mapping[str, int] = field(default_factory=dict)
    """By the name of each: when it was set last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretView:
    """A secret as its owner sees it again."""

    name: str
    created_at: datetime
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretChanged:
    """What `set_secret` did."""

    secret: SecretView


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretDeleted:
    """What `delete_secret` did."""

    name: str
