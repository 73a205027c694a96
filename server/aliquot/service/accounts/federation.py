"""Federation: people who are known by an identity provider, and which user each of them is here.

Somebody is told by `<issuer>#<sub>`, which no provider gives to another person. A name may be changed, or given to
somebody else: it counts once, when he first comes in.
"""

from dataclasses import dataclass, replace
from typing import Final, NoReturn

from aliquot.service.accounts.names import project_names, unix_name, user_name
from aliquot.service.accounts.users import Users
from aliquot.service.draft import Draft
from aliquot.service.journal import Journal
from aliquot.service.people import People
from aliquot.service.ports import Clock
from aliquot_schema.accounts import User
from aliquot_schema.errors import AliquotError, Unauthenticated, Unavailable
from aliquot_schema.ids import UserId
from aliquot_schema.roles import Role

ACTOR: Final = "system:oidc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Somebody, as a token of the provider tells of him."""

    subject: str
    """`<issuer>#<sub>`."""
    name: str
    role: Role | None
    """What he is, where the provider says; else what he is to begin with. None: he may not come in."""
    has_role: bool
    """Whether the provider says what people are, now and later; else an admin does."""
    projects: tuple[str, ...] | None
    """None: an admin says."""
    unix_name: str | None
    issued_us: int
    """When the token was made; 0 = nobody knows."""


class Federation:
    """Makes users of people, and lets their records follow what the provider says of them.

    Args:
        is_open: whether somebody may come in whom no admin has made a user.
        owner: who has the server's own token; nobody comes in as him.
    """

    def __init__(
        self, *, users: Users, people: People, journal: Journal, clock: Clock, is_open: bool, owner: UserId
    ) -> None:
        self._users = users
        self._people = people
        self._journal = journal
        self._clock = clock
        self._is_open = is_open
        self._owner = owner

    async def user_of(self, identity: Identity) -> UserId:
        """Which user somebody is; his record is made or changed where need be.

        Raises:
            Unauthenticated: he may not come in; the message says why.
            Unavailable: nothing can be written down now.
        """
        known = self._people.known_as(identity.subject)
        if identity.role is None:
            await self._shut_out(known, identity)
        if known is not None and (known.disabled or _following(known, identity) == known):
            return known.id
        return await self._follow(identity)

    async def _shut_out(self, known: User | None, identity: Identity) -> NoReturn:
        """Somebody who was in a group that may come in, and is in none now, has no more rights by what he still has:
        tokens of before, and keys."""
        least = replace(identity, role=Role.VIEWER)
        if known is not None and not known.disabled and _following(known, least) != known:
            await self._follow(least)
        raise Unauthenticated("The token is of nobody in a group that may come in; see the setting oidc-roles.")

    async def _follow(self, identity: Identity) -> UserId:
        try:
            return await self._journal.transact(lambda draft: self._written(draft, identity), actor=ACTOR)
        except Unavailable:
            raise
        except AliquotError as error:
            raise Unauthenticated(f"{identity.name[:80]} cannot come in: {error.message}") from None

    def _written(self, draft: Draft, identity: Identity) -> UserId:
        known, now_us = self._people.known_as(identity.subject), self._clock.now_us()
        if known is None:
            known = self._named(draft, user_name(identity.name), identity, now_us=now_us)
        wanted = _following(known, identity)
        if wanted != known or not known.version:
            what = "changed" if known.version else "created"
            # Its clock may be ahead of this one: what is older than this token must not count as newer than the change.
            changed_us = max(now_us, identity.issued_us)
            draft.put(self._users.checked(replace(wanted, changed_us=changed_us)), what)
        return known.id

    def _named(self, draft: Draft, name: UserId, identity: Identity, *, now_us: int) -> User:
        """Who has this name and was nobody's so far, or somebody new."""
        known = draft.user(name)
        if name == self._owner:
            raise Unauthenticated(f"{name} is the holder of the server's token")
        if known is not None and known.subject is not None:
            raise Unauthenticated(
                f"{name} is somebody else here; if it is you who has the name now, have an admin say so "
                f"(aliquot user set {name} --forget-identity)"
            )
        if known is not None and known.disabled:
            raise Unauthenticated(f"{name} is disabled")
        if known is not None:
            return known
        alike = next((other for other in (*self._people.users, self._owner) if other.lower() == name.lower()), None)
        if alike is not None:
            raise Unauthenticated(
                f"there is {alike} already, and {name} would be taken for the same; if it is another person, ask an "
                f"admin to make the user {name}"
            )
        if not self._is_open:
            raise Unauthenticated(f"there is no user {name}; ask an admin to make one")
        assert identity.role is not None
        return User(id=name, role=identity.role, created_us=now_us)


def _following(known: User, identity: Identity) -> User:
    """A record as a token wants it to be. One that is older than the record's last change has nothing to say of it."""
    wanted = replace(known, subject=identity.subject)
    if identity.issued_us <= known.changed_us:
        return wanted
    projects = known.projects if identity.projects is None else project_names(identity.projects)
    role = identity.role if identity.has_role and identity.role is not None else known.role
    return replace(wanted, role=role, projects=projects, unix_name=known.unix_name or unix_name(identity.unix_name))
