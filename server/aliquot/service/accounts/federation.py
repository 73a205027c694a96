"""Identity federation: maps identities of an OpenID Connect provider to users, creating and updating their records.

An identity is its subject, `<issuer>#<sub>`, which a provider never reassigns. Names can change or be reassigned, so a
name is used only once, to find or create the user at the first sign-in.
"""

from typing import Final, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.validation.fields import project_names
from aliquot.service.accounts.users import Users, unix_name, user_name
from aliquot.service.ports import Clock
from aliquot.service.state.identities import Identities
from aliquot.service.state.journal import Journal
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.errors import AliquotError, Unauthenticated, Unavailable
from aliquot_schema.identity.accounts import Role, User
from aliquot_schema.ids import UserId

ACTOR: Final = "system:oidc"


class Identity(Struct, frozen=True, kw_only=True):
    """A person, as described by a token of the provider."""

    subject: str
    """`<issuer>#<sub>`."""
    name: str
    role: Role | None
    """The role given by the provider, else the initial role of a new user. None = access denied."""
    has_role: bool
    """Whether the provider controls roles; else admins do."""
    projects: tuple[str, ...] | None
    """None = admins control project membership."""
    unix_name: str | None
    issued_us: int
    """When the token was issued; 0 = unknown."""


class Federation:
    """Creates users at their first sign-in, and keeps their records in step with the provider.

    Args:
        is_open: whether people without a user record may sign in.
        owner: the user of the server's own token; federated sign-in as this user is refused.
    """

    def __init__(
        self, *, users: Users, people: Identities, journal: Journal, clock: Clock, is_open: bool, owner: UserId
    ) -> None:
        self._users = users
        self._people = people
        self._journal = journal
        self._clock = clock
        self._is_open = is_open
        self._owner = owner

    async def user_of(self, identity: Identity) -> UserId:
        """The user of an identity; the record is created or updated if needed.

        Raises:
            Unauthenticated: access denied; the message says why.
            Unavailable: the store cannot be written now.
        """
        known = self._people.by_subject(identity.subject)
        if identity.role is None:
            await self._refuse(known, identity)
        if known is not None and (known.disabled or _updated(known, identity) == known):
            return known.id
        return await self._write(identity)

    async def _refuse(self, known: User | None, identity: Identity) -> NoReturn:
        """Refuse an identity without a role. A known user becomes a viewer, which also limits older tokens and keys."""
        least = replace(identity, role=Role.VIEWER)
        if known is not None and not known.disabled and _updated(known, least) != known:
            await self._write(least)
        raise Unauthenticated(
            "None of the token's groups is mapped to a role; ask an admin to see the setting oidc-roles."
        )

    async def _write(self, identity: Identity) -> UserId:
        try:
            return await self._journal.transact(lambda draft: self._draft_user(draft, identity), actor=ACTOR)
        except Unavailable:
            raise
        except AliquotError as error:
            raise Unauthenticated(f"{identity.name[:80]} cannot sign in: {error.message}") from None

    def _draft_user(self, draft: UnitOfWork, identity: Identity) -> UserId:
        known, now_us = self._people.by_subject(identity.subject), self._clock.now_us()
        if known is None:
            known = self._named(draft, user_name(identity.name), identity, now_us=now_us)
        updated = _updated(known, identity)
        if updated != known or not known.version:
            what = "changed" if known.version else "created"
            # The provider's clock may be ahead: tokens older than this one must not count as newer than this change.
            changed_us = max(now_us, identity.issued_us)
            draft.put(self._users.checked(replace(updated, changed_us=changed_us)), what)
        return known.id

    def _named(self, draft: UnitOfWork, name: UserId, identity: Identity, *, now_us: int) -> User:
        """The user of this name that has no identity yet, or a new user."""
        known = draft.user(name)
        if name == self._owner:
            raise Unauthenticated(f"{name} is the user of the server's own token")
        if known is not None and known.subject is not None:
            raise Unauthenticated(
                f"the user {name} belongs to another identity; if the name is yours now, ask an admin to run "
                f"`aliquot user set {name} --forget-identity`"
            )
        if known is not None and known.disabled:
            raise Unauthenticated(f"{name} is disabled")
        if known is not None:
            return known
        similar = next((other for other in (*self._people.users, self._owner) if other.lower() == name.lower()), None)
        if similar is not None:
            raise Unauthenticated(
                f"the name {name} differs only in case from the existing user {similar}; if you are another person, "
                f"ask an admin to create the user {name}"
            )
        if not self._is_open:
            raise Unauthenticated(f"there is no user {name}; ask an admin to create one")
        assert identity.role is not None
        return User(id=name, role=identity.role, created_us=now_us)


def _updated(known: User, identity: Identity) -> User:
    """The record updated from a token; a token issued before the record's last change only sets the subject."""
    updated = replace(known, subject=identity.subject)
    if identity.issued_us <= known.changed_us:
        return updated
    projects = known.projects if identity.projects is None else project_names(identity.projects)
    role = identity.role if identity.has_role and identity.role is not None else known.role
    return replace(updated, role=role, projects=projects, unix_name=known.unix_name or unix_name(identity.unix_name))
