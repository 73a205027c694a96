"""Users: made, changed and disabled by admins."""

from dataclasses import replace
from typing import Any, Final

from aliquot.service.accounts.names import project_names, unix_name, user_name
from aliquot.service.accounts.projection import user_view
from aliquot.service.accounts.trust import NOBODY, Trust, check_may_join
from aliquot.service.draft import Draft
from aliquot.service.office import Office, check_version
from aliquot.service.permissions import check_role
from aliquot_schema.account_views import NewUser, UserChanged, UserChanges, UserView
from aliquot_schema.accounts import User
from aliquot_schema.errors import InvalidRequest, NotFound, StateConflict
from aliquot_schema.ids import UserId
from aliquot_schema.natural_order import natural_key
from aliquot_schema.requests import Caller
from aliquot_schema.roles import Role

NAME_SHOWN_MAX: Final = 80


class Users(Office):
    """Users are never removed: what they did names them. A disabled one comes in no more, at once and everywhere."""

    trust: Trust = Trust.ALONE

    def users(self, caller: Caller) -> tuple[UserView, ...]:
        """All users, disabled ones included.

        Raises:
            Forbidden: the caller is no operator.
        """
        check_role(caller, Role.OPERATOR)
        known = sorted(self._state.people.users.values(), key=lambda user: natural_key(user.id))
        return tuple(user_view(user) for user in known)

    async def create_user(self, caller: Caller, asked: NewUser) -> UserChanged:
        """Let somebody in, who comes with a key.

        Raises:
            Forbidden, InvalidRequest, StateConflict: there is one of this name, or the server is for one person.
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

        def change(draft: Draft) -> User:
            known = draft.user(user.id)
            if known is not None:
                state = "disabled" if known.disabled else "enabled"
                raise StateConflict(f"there is a user {user.id} already, and {state}", id=user.id, state=state)
            return draft.put(self.checked(user), "created")

        return self._user_changed(await self._act(caller, change))

    async def update_user(
        self, caller: Caller, name: str, changes: UserChanges, expected_version: int | None
    ) -> UserChanged:
        """Change a user; what is None stays. Sockets of a user whose rights change are closed, to be opened anew.

        Raises:
            Forbidden, InvalidRequest, NotFound, VersionConflict, StateConflict: as of `create_user`.
        """
        check_role(caller, Role.ADMIN)
        given = _checked(changes)

        def change(draft: Draft) -> User:
            known = _found(draft, name)
            check_version(known.id, expected=expected_version, actual=known.version)
            wanted = replace(known, **given)
            if wanted == known:
                return known
            wanted = self.checked(wanted)
            what = "changed" if wanted.disabled is known.disabled else "disabled" if wanted.disabled else "enabled"
            return draft.put(replace(wanted, changed_us=self._clock.now_us()), what)

        return self._user_changed(await self._act(caller, change))

    async def disable_user(self, caller: Caller, name: str, expected_version: int | None) -> UserChanged:
        """Let somebody in no more, by no key. Doing it twice is no error.

        Raises:
            Forbidden, NotFound, VersionConflict.
        """
        return await self.update_user(caller, name, UserChanges(disabled=True), expected_version)

    def checked(self, user: User) -> User:
        """A user as he may be, with the Unix account that is his alone.

        Raises:
            InvalidRequest, StateConflict: he may not be like that.
        """
        if user.disabled:
            return replace(user, account=user.account if user.account == user.unix_name else None)
        check_may_join(self.trust, user)
        if user.unix_name is None or self.trust is Trust.SHARED:
            return replace(user, account=None)
        if user.unix_name == NOBODY:
            raise InvalidRequest(
                f"unix_name: what has no account of its own runs as {NOBODY}; name another one", field="unix_name"
            )
        for other in self._state.people.users.values():
            if other.unix_name == user.unix_name and other.id != user.id:
                raise InvalidRequest(
                    f"unix_name: {user.unix_name} is that of {other.id}; jobs of two people would not be kept apart",
                    field="unix_name",
                )
        return replace(user, account=user.unix_name)

    def _user_changed(self, user: User) -> UserChanged:
        return UserChanged(user=user_view(user), revision=self._state.revision)


def _checked(changes: UserChanges) -> dict[str, Any]:
    """By the names of the record."""
    given: dict[str, Any] = {}
    if changes.role is not None:
        given["role"] = changes.role
    if changes.unix_name is not None:
        given["unix_name"] = unix_name(changes.unix_name)
    if changes.projects is not None:
        given["projects"] = project_names(changes.projects)
    if changes.disabled is not None:
        given["disabled"] = changes.disabled
    if changes.forget_identity:
        given["subject"] = None
    return given


def _found(draft: Draft, name: str) -> User:
    user = draft.user(UserId(name))
    if user is None:
        shown = name[:NAME_SHOWN_MAX]
        raise NotFound(f"there is no user {shown}", kind="user", id=shown)
    return user
