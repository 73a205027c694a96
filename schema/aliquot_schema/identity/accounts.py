"""User accounts: users, roles, API keys and key scopes. Usage accounting is `quotas.Account`."""

from typing import Final

from msgspec import Struct

from aliquot_schema.enums import DescribedInt, DescribedStr
from aliquot_schema.ids import KeyId, ProjectId, UserId


class Role(DescribedInt):
    """Role of a user; each role includes the rights of those before it."""

    VIEWER = 1, "Read."
    USER = 2, "Submit sessions and change their own."
    OPERATOR = 3, "Change sessions of all users, agents, quotas and the policy."
    ADMIN = 4, "Create users and keys, and read everything."


class KeyScope(DescribedStr):
    """Upper bound on the rights of a key, whatever its owner's role."""

    READ = "read", "Read."
    SUBMIT = "submit", "Submit sessions and change the owner's."
    OPERATE = "operate", "Change sessions of all users, agents, quotas and the policy."
    ADMIN = "admin", "Everything that the owner's role allows."


ROLE_MAX: Final = {
    KeyScope.READ: Role.VIEWER,
    KeyScope.SUBMIT: Role.USER,
    KeyScope.OPERATE: Role.OPERATOR,
    KeyScope.ADMIN: Role.ADMIN,
}
"""The highest role that a key of a scope can act in."""


KEY_PREFIX: Final = "key_"
SIGN_IN_PREFIX: Final = "signin_"
"""Ids of ended browser sign-ins. Each is kept as a revoked key without a secret; no key list has them."""


FEED_PREFIX: Final = "feed_"
"""Ids of the secrets of calendar feeds, `feed_<user>`. Each is kept as a key that opens the feed and nothing else; no
key list has them."""


def actor_parts(actor: str) -> tuple[str, KeyId | None]:
    """The user, or part of the server, and the API key of an actor of the event log."""
    name, _, key_id = actor.partition("/")
    return (name, KeyId(key_id)) if key_id.startswith(KEY_PREFIX) else (actor, None)


class User(Struct, frozen=True, kw_only=True):
    """A user of the server. Times are microseconds UTC. Users are never deleted, because records refer to them."""

    id: UserId
    """The name."""
    version: int = 0
    role: Role
    unix_name: str | None = None
    """The Unix account that the user's sessions run as; None = the agents' common one."""
    projects: tuple[ProjectId, ...] = ()
    """Memberships. The default project is not listed: every user may submit to it, and it has no members."""
    disabled: bool = False
    """Whether all of the user's keys are rejected. Sessions are not affected."""
    subject: str | None = None
    """Identity at the OIDC provider, `<issuer>#<sub>`; None = never signed in with it."""
    account: str | None = None
    """`unix_name` where Unix accounts must be unique, else None. Unique among users."""
    created_us: int = 0
    changed_us: int = 0


class ApiKey(Struct, frozen=True, kw_only=True):
    """An API key of a user. The token is `<id>.<secret>`; only a digest of the secret is stored."""

    id: KeyId
    version: int = 0
    user: UserId
    name: str
    """Its purpose, in the owner's words."""
    scope: KeyScope
    digest: str
    """SHA-256 of the secret, hexadecimal."""
    created_us: int = 0
    expires_us: int | None = None
    """None = never."""
    revoked_us: int | None = None
    gpu_use_max: int | None = None
    """Budget of what its sessions hold, in milli of a device x milliseconds, by price; None = no limit."""
    sessions_max: int | None = None
    """Budget of submitted sessions, each task of an array counted; None = no limit."""
    dry_run_first: bool | None = None
    """Whether each request must be previewed before it is submitted."""
    gpu_use: int = 0
    """What its sessions held and have released, in the unit of `gpu_use_max`."""
    submitted: int = 0
    """Sessions submitted with it, each task of an array counted."""

    def __repr__(self) -> str:
        return f"ApiKey(id={self.id!r}, user={self.user!r}, name={self.name!r})"  # without its digest

    @property
    def has_budget(self) -> bool:
        """Whether its use is limited."""
        return self.gpu_use_max is not None or self.sessions_max is not None
