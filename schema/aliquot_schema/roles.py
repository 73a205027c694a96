"""Roles: what somebody may do, and scopes: what a key of his may do at most."""

from enum import IntEnum, StrEnum
from typing import Final


class Role(IntEnum):
    """What somebody may do; each may do what those before it may."""

    VIEWER = 1
    """Look."""
    USER = 2
    """Submit, and change what is his own."""
    OPERATOR = 3
    """Change everybody's sessions, agents, quotas and the policy."""
    ADMIN = 4
    """Make users and keys, and see everything."""


class KeyScope(StrEnum):
    """What a key lets its owner do at most, whatever his role."""

    READ = "read"
    SUBMIT = "submit"
    OPERATE = "operate"
    ADMIN = "admin"


ROLE_MAX: Final = {
    KeyScope.READ: Role.VIEWER,
    KeyScope.SUBMIT: Role.USER,
    KeyScope.OPERATE: Role.OPERATOR,
    KeyScope.ADMIN: Role.ADMIN,
}
"""The highest role in which a key of a scope acts."""
