"""Accounts: the people who may come in, and the keys that they show. Not to be mixed up with what they are charged,
which is `quotas.Account`.
"""

from dataclasses import dataclass, field
from typing import Final

from aliquot_schema.ids import KeyId, ProjectId, UserId
from aliquot_schema.roles import KeyScope, Role

KEY_PREFIX: Final = "key_"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Somebody who may come in. Times are microseconds UTC. Users are never deleted: what they did names them."""

    id: UserId
    """The name."""
    version: int = 0
    role: Role
    unix_name: str | None = None
    """The Unix account that the user's sessions run as; None = the one that the agents have for everybody."""
    projects: tuple[ProjectId, ...] = ()
    """Besides the default project, which everybody may submit to and nobody sees into."""
    disabled: bool = False
    """Nobody comes in by any of the keys. Sessions stay as they are."""
    subject: str | None = None
    """Who this is at the identity provider, `<issuer>#<sub>`; None = nobody has come in by a token of it yet."""
    account: str | None = None
    """`unix_name`, where no other user may have it; None where accounts may be shared. No two users have the same."""
    created_us: int = 0
    changed_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key of a user. What is shown is `<id>.<secret>`; the secret is nowhere kept."""

    id: KeyId
    version: int = 0
    user: UserId
    name: str
    """What it is for, in its owner's words."""
    scope: KeyScope
    digest: str = field(repr=False)
    """SHA-256 of the secret, hexadecimal."""
    created_us: int = 0
    expires_us: int | None = None
    """None = never."""
    revoked_us: int | None = None
