"""Users: created, changed and disabled by admins; with the validation of their names, and the views of accounts."""

import re
from typing import Any, Final

from msgspec.structs import replace

from aliquot.core.validation.fields import project_names
from aliquot.service.access import FALLBACK_ACCOUNT, AccountSearch, JobAccounts, Trust, check_may_join, check_role
from aliquot.service.accounts.key_budgets import GPU_HOUR
from aliquot.service.operators import OperatorCommands, check_version
from aliquot.service.ports import Clock
from aliquot.service.state.identities import Identities, holds
from aliquot.service.state.journal import Journal
from aliquot.service.state.projects import create_again
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot.service.views.terms import moment, moment_or_none
from aliquot_schema.errors import InvalidRequest, NotFound, StateConflict
from aliquot_schema.identity.accounts import ApiKey, Role, User
from aliquot_schema.ids import UserId, natural_key
from aliquot_schema.requests import Caller
from aliquot_schema.states import AgentState
from aliquot_schema.views.accounts import ApiKeyView, NewUser, UserChanged, UserChanges, UserView

_USER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_UNIX: Final = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


def user_name(text: str) -> UserId:
    """Check a user name. Colons are reserved for `system:` actors, slashes separate names in ids."""
    if not _USER.fullmatch(text):
        raise InvalidRequest(
            "name: give 1 to 64 letters (a to z), digits and . _ @ + -, beginning with a letter or digit", field="name"
        )
    return UserId(text)


def unix_name(text: str | None) -> str | None:
    """Check the name of a Unix account, which must exist on the agents' hosts; empty = none."""
    if not text:
        return None
    if not _UNIX.fullmatch(text):
        raise InvalidRequest(
            "unix_name: give 1 to 32 of a-z, 0-9, _ and -, beginning with a letter or _", field="unix_name"
        )
    if text == "root":
        raise InvalidRequest("unix_name: jobs never run as root; name another account", field="unix_name")
    return text


def user_view(user: User) -> UserView:
    """The view of a user."""
    return UserView(
        name=user.id,
        version=user.version,
        role=user.role,
        unix_name=user.unix_name,
        projects=user.projects,
        disabled=user.disabled,
        created_at=moment(user.created_us),
        changed_at=moment(user.changed_us),
    )


def key_view(key: ApiKey, people: Identities, *, now_us: int, open_use: int = 0) -> ApiKeyView:
    """The view of an API key, without secret and digest.

    Args:
        open_use: what its running sessions have held so far, in milli of a device x milliseconds.
    """
    user = people.users.get(key.user)
    return ApiKeyView(
        id=key.id,
        version=key.version,
        user=key.user,
        name=key.name,
        scope=key.scope,
        created_at=moment(key.created_us),
        expires_at=moment_or_none(key.expires_us),
        revoked_at=moment_or_none(key.revoked_us),
        is_valid=holds(key, now_us=now_us) and user is not None and not user.disabled,
        gpu_hours_max=None if key.gpu_use_max is None else key.gpu_use_max / GPU_HOUR,
        sessions_max=key.sessions_max,
        gpu_hours=(key.gpu_use + open_use) / GPU_HOUR,
        submitted=key.submitted,
        dry_run_first=bool(key.dry_run_first),
    )


NAME_SHOWN_MAX: Final = 80


class Users(OperatorCommands):
    """Use cases of users. Users are disabled, never deleted, because records refer to them.

    Disabling takes effect immediately on all servers.
    """

    def __init__(
        self,
        *,
        state: State,
        journal: Journal,
        clock: Clock,
        trust: Trust = Trust.ALONE,
        job_accounts: JobAccounts | None = None,
        search: AccountSearch = lambda _: None,
    ) -> None:
        """
        Args:
            trust: how far the users trust each other.
            job_accounts: the Unix accounts of this host; None = they are not checked.
            search: looks for an account on the hosts of agents.
        """
        super().__init__(state=state, journal=journal, clock=clock)
        self._trust = trust
        self._job_accounts = job_accounts
        self._search = search

    def users(self, caller: Caller) -> tuple[UserView, ...]:
        """All users, disabled ones included.

        Raises:
            Forbidden: the caller is not an operator.
        """
        check_role(caller, Role.OPERATOR)
        known = sorted(self._state.people.users.values(), key=lambda user: natural_key(user.id))
        return tuple(user_view(user) for user in known)

    async def create_user(self, caller: Caller, asked: NewUser) -> UserChanged:
        """Create a user, who signs in with an API key.

        Raises:
            Forbidden, InvalidRequest.
            StateConflict: the name exists, or the server is for a single user, see `check_may_join`.
        """
        check_role(caller, Role.ADMIN)
        now_us = self._clock.now_us()
        user = User(
            id=user_name(asked.name),
            role=asked.role,
            unix_name=unix_name(asked.unix_name),
            projects=project_names(asked.projects),
            created_us=now_us,
            changed_us=now_us,
        )

        def change(draft: UnitOfWork) -> User:
            known = draft.user(user.id)
            if known is not None:
                state = "disabled" if known.disabled else "enabled"
                raise StateConflict(f"user {user.id} already exists and is {state}", id=user.id, state=state)
            create_again(draft, user.projects)
            return draft.put(self.checked(user), "created")

        return await self._user_changed(await self._act(caller, change))

    async def update_user(
        self, caller: Caller, name: str, changes: UserChanges, expected_version: int | None
    ) -> UserChanged:
        """Change a user; None leaves a field unchanged. A change of rights closes the user's open WebSockets.

        Raises:
            Forbidden, InvalidRequest, NotFound, VersionConflict, StateConflict: as for `create_user`.
        """
        check_role(caller, Role.ADMIN)
        fields = _checked(changes)

        def change(draft: UnitOfWork) -> User:
            known = _found(draft, name)
            check_version(known.id, expected=expected_version, actual=known.version)
            wanted = replace(known, **fields)
            if wanted == known:
                return known
            wanted = self.checked(wanted)
            create_again(draft, wanted.projects)
            what = "changed" if wanted.disabled is known.disabled else "disabled" if wanted.disabled else "enabled"
            return draft.put(replace(wanted, changed_us=self._clock.now_us()), what)

        return await self._user_changed(await self._act(caller, change))

    async def disable_user(self, caller: Caller, name: str, expected_version: int | None) -> UserChanged:
        """Disable a user, with all keys. Idempotent.

        Raises:
            Forbidden, NotFound, VersionConflict.
        """
        return await self.update_user(caller, name, UserChanges(disabled=True), expected_version)

    def checked(self, user: User) -> User:
        """Check a user record, and set `account`, the Unix account reserved for this user.

        Raises:
            InvalidRequest, StateConflict.
        """
        if user.disabled:
            return replace(user, account=user.account if user.account == user.unix_name else None)
        check_may_join(self._trust, user)
        if user.unix_name is None or self._trust is Trust.SHARED:
            return replace(user, account=None)
        if user.unix_name == FALLBACK_ACCOUNT:
            raise InvalidRequest(
                f"unix_name: jobs without an account of their own run as {FALLBACK_ACCOUNT}; name another account",
                field="unix_name",
            )
        for other in self._state.people.users.values():
            if other.unix_name == user.unix_name and other.id != user.id:
                raise InvalidRequest(
                    f"unix_name: {user.unix_name} is used by {other.id}; their jobs would not be isolated",
                    field="unix_name",
                )
        return replace(user, account=user.unix_name)

    async def _user_changed(self, user: User) -> UserChanged:
        accounts = self._job_accounts
        if accounts is None:
            return UserChanged(user=user_view(user), revision=self._state.revision)
        asking = self._search(user.unix_name) if user.unix_name and self._trust is not Trust.SHARED else None
        found = {} if asking is None else await asking
        agents = [
            (agent.hostname, found.get(agent.id))
            for agent in self._state.agents.values()
            if agent.state is AgentState.ALIVE
        ]
        return UserChanged(
            user=user_view(user),
            revision=self._state.revision,
            jobs_run_as=accounts.words(user, trust=self._trust),
            warning=accounts.warning(user, trust=self._trust, agents=agents),
        )


def _checked(changes: UserChanges) -> dict[str, Any]:
    """The fields changes, checked, by field of `User`."""
    fields: dict[str, Any] = {}
    if changes.role is not None:
        fields["role"] = changes.role
    if changes.unix_name is not None:
        fields["unix_name"] = unix_name(changes.unix_name)
    if changes.projects is not None:
        fields["projects"] = project_names(changes.projects)
    if changes.disabled is not None:
        fields["disabled"] = changes.disabled
    if changes.forget_identity:
        fields["subject"] = None
    return fields


def _found(draft: UnitOfWork, name: str) -> User:
    user = draft.user(UserId(name))
    if user is None:
        shown = name[:NAME_SHOWN_MAX]
        raise NotFound(f"there is no user {shown}", kind="user", id=shown)
    return user
