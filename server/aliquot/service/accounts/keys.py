"""API keys: made by admins, revoked by them and by their owners."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from aliquot.core.field_checks import label, milliseconds
from aliquot.service.accounts.projection import key_view
from aliquot.service.accounts.users import NAME_SHOWN_MAX, Users
from aliquot.service.draft import Draft
from aliquot.service.journal import Journal
from aliquot.service.key_texts import digest_of, new_secret, shown
from aliquot.service.permissions import check_role
from aliquot.service.ports import Clock, Ids
from aliquot.service.secrets.vault import Vault
from aliquot.service.state import State
from aliquot_schema.account_views import ApiKeyCreated, ApiKeyRevoked, ApiKeyView, MeView, NewApiKey
from aliquot_schema.accounts import KEY_PREFIX, ApiKey, User
from aliquot_schema.errors import Forbidden, InvalidRequest, NotFound, StateConflict
from aliquot_schema.ids import KeyId, RequestId, UserId
from aliquot_schema.requests import Caller
from aliquot_schema.roles import Role
from aliquot_schema.secrets import SecretChanged, SecretDeleted, SecretView

EXPIRES_S_MAX: Final = 10 * 365 * 86_400


class Accounts(Users):
    """Users and their keys."""

    def __init__(
        self,
        *,
        state: State,
        journal: Journal,
        clock: Clock,
        ids: Ids,
        secret: Callable[[], str] = new_secret,
    ) -> None:
        super().__init__(state=state, journal=journal, clock=clock)
        self.vault = Vault(clock=clock, journal=journal)
        self._ids = ids
        self._secret = secret

    async def secrets(self, caller: Caller) -> tuple[SecretView, ...]:
        """See `Vault`."""
        return await self.vault.secrets(caller)

    async def set_secret(self, caller: Caller, name: str, value: str) -> SecretChanged:
        """See `Vault`."""
        return await self.vault.set_secret(caller, name, value)

    async def delete_secret(self, caller: Caller, name: str) -> SecretDeleted:
        """See `Vault`."""
        return await self.vault.delete_secret(caller, name)

    def me(self, caller: Caller) -> MeView:
        """Who asks."""
        user = self._state.people.users.get(caller.user)
        return MeView(
            name=caller.user,
            role=caller.role,
            projects=caller.projects,
            unix_name=None if user is None else user.unix_name,
            key_id=caller.key_id,
        )

    def api_keys(self, caller: Caller, *, user: str | None) -> tuple[ApiKeyView, ...]:
        """Keys, the oldest first: for admins all or those of a user, for others their own.

        Raises:
            Forbidden: somebody else's are asked for.
        """
        if caller.role < Role.ADMIN and user not in (None, caller.user):
            raise Forbidden("keys of others are shown to admins alone")
        wanted = user if caller.role >= Role.ADMIN else caller.user
        people, now_us = self._state.people, self._clock.now_us()
        found = sorted(key for key in people.keys if wanted in (None, people.keys[key].user))
        return tuple(key_view(people.keys[key], people, now_us=now_us) for key in found)

    async def create_api_key(self, caller: Caller, asked: NewApiKey) -> ApiKeyCreated:
        """Make a key for a user. Its secret is in the answer, and nowhere else ever.

        Keys are made by admins alone: whoever got hold of somebody's key must not make more of it.

        Raises:
            Forbidden, InvalidRequest, NotFound, StateConflict: the user is disabled.
        """
        check_role(caller, Role.ADMIN)
        secret, now_us = self._secret(), self._clock.now_us()
        name = label(asked.name.strip(), field="name")
        if not name:
            raise InvalidRequest("name: say what the key is for", field="name")
        lasts_ms = milliseconds(asked.expires_in, field="expires_in", most_s=EXPIRES_S_MAX)
        key = ApiKey(
            id=KeyId(self._ids.new(KEY_PREFIX)),
            user=UserId(asked.user),
            name=name,
            scope=asked.scope,
            digest=digest_of(secret),
            created_us=now_us,
            expires_us=None if lasts_ms is None else now_us + 1000 * lasts_ms,
        )

        def change(draft: Draft) -> ApiKey:
            _check_owner(draft.user(key.user), asked.user)
            return draft.put(key, "created")

        made = await self._act(caller, change)
        return ApiKeyCreated(
            api_key=self._key_view(made), secret=shown(made.id, secret=secret), revision=self._state.revision
        )

    async def revoke_api_key(self, caller: Caller, key_id: str) -> ApiKeyRevoked:
        """Let nobody in by a key any more, at once, on all servers; sockets that it opened are closed.

        Raises:
            Forbidden: it is neither the caller's nor is he an admin; NotFound.
        """

        def change(draft: Draft) -> ApiKey:
            key = draft.key(KeyId(key_id))
            if key is None or (caller.role < Role.ADMIN and key.user != caller.user):
                shown_id = key_id[:NAME_SHOWN_MAX]
                raise NotFound(f"there is no key {shown_id}, or it is not yours", kind="api_key", id=shown_id)
            if key.revoked_us is not None:
                return key
            return draft.put(replace(key, revoked_us=self._clock.now_us()), "revoked")

        revoked = await self._journal.transact(change, actor=caller.user, request_id=RequestId(caller.request_id))
        return ApiKeyRevoked(api_key=self._key_view(revoked), revision=self._state.revision)

    def _key_view(self, key: ApiKey) -> ApiKeyView:
        return key_view(key, self._state.people, now_us=self._clock.now_us())


def _check_owner(user: User | None, name: str) -> None:
    if user is None:
        shown_name = name[:NAME_SHOWN_MAX]
        raise NotFound(f"there is no user {shown_name}; make one first", kind="user", id=shown_name)
    if user.disabled:
        raise StateConflict(f"{user.id} is disabled", id=user.id, state="disabled")
