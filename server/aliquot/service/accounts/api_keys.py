"""API keys: created by admins, revoked by admins and by their owners."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from aliquot.core.validation.fields import label, milliseconds
from aliquot.service.access import check_role
from aliquot.service.accounts.secrets import Secrets
from aliquot.service.accounts.trust import JobAccounts, Trust
from aliquot.service.accounts.users import NAME_SHOWN_MAX, Users, key_view
from aliquot.service.ports import Clock, Ids
from aliquot.service.state.identities import digest_of, new_secret, shown
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.errors import Forbidden, InvalidRequest, NotFound, StateConflict
from aliquot_schema.identity.accounts import KEY_PREFIX, SIGN_IN_PREFIX, ApiKey, KeyScope, Role, User
from aliquot_schema.identity.secrets import SecretChanged, SecretDeleted, SecretView
from aliquot_schema.ids import KeyId, RequestId, UserId
from aliquot_schema.requests import Caller
from aliquot_schema.views.accounts import ApiKeyCreated, ApiKeyRevoked, ApiKeyView, MeView, NewApiKey

EXPIRES_S_MAX: Final = 10 * 365 * 86_400


class Accounts(Users):
    """Use cases of users, API keys and secrets."""

    def __init__(
        self,
        *,
        state: State,
        journal: Journal,
        clock: Clock,
        ids: Ids,
        vault: Secrets,
        trust: Trust = Trust.ALONE,
        job_accounts: JobAccounts | None = None,
        secret: Callable[[], str] = new_secret,
    ) -> None:
        super().__init__(state=state, journal=journal, clock=clock, trust=trust, job_accounts=job_accounts)
        self._vault = vault
        self._ids = ids
        self._new_secret = secret

    async def secrets(self, caller: Caller) -> tuple[SecretView, ...]:
        """See `Secrets`."""
        return await self._vault.secrets(caller)

    async def set_secret(self, caller: Caller, name: str, value: str) -> SecretChanged:
        """See `Secrets`."""
        return await self._vault.set_secret(caller, name, value)

    async def delete_secret(self, caller: Caller, name: str) -> SecretDeleted:
        """See `Secrets`."""
        return await self._vault.delete_secret(caller, name)

    def me(self, caller: Caller) -> MeView:
        """The caller's own account."""
        user = self._state.people.users.get(caller.user)
        return MeView(
            name=caller.user,
            role=caller.role,
            projects=caller.projects,
            unix_name=None if user is None else user.unix_name,
            key_id=caller.key_id,
        )

    def api_keys(self, caller: Caller, *, user: str | None) -> tuple[ApiKeyView, ...]:
        """Keys, oldest first. Admins see all keys, or those of `user`; others see their own.

        Raises:
            Forbidden: a user other than an admin asked for the keys of another user.
        """
        if caller.role < Role.ADMIN and user not in (None, caller.user):
            raise Forbidden("only admins may list the keys of other users")
        wanted = user if caller.role >= Role.ADMIN else caller.user
        people, now_us = self._state.people, self._clock.now_us()
        mine = (key for key in people.keys if wanted in (None, people.keys[key].user))
        found = sorted(key for key in mine if not key.startswith(SIGN_IN_PREFIX))
        return tuple(key_view(people.keys[key], people, now_us=now_us) for key in found)

    async def create_api_key(self, caller: Caller, asked: NewApiKey) -> ApiKeyCreated:
        """Create a key for a user. Its secret is returned once, and is not stored.

        Only admins create keys, so that a stolen key cannot be used to create more.

        Raises:
            Forbidden, InvalidRequest.
            NotFound: there is no such user.
            StateConflict: the user is disabled.
        """
        check_role(caller, Role.ADMIN)
        secret, now_us = self._new_secret(), self._clock.now_us()
        name = label(asked.name.strip(), field="name")
        if not name:
            raise InvalidRequest("name: say what the key is for", field="name")
        lifetime_ms = milliseconds(asked.expires_in, field="expires_in", most_s=EXPIRES_S_MAX)
        key = ApiKey(
            id=KeyId(self._ids.new(KEY_PREFIX)),
            user=UserId(asked.user),
            name=name,
            scope=asked.scope,
            digest=digest_of(secret),
            created_us=now_us,
            expires_us=None if lifetime_ms is None else now_us + 1000 * lifetime_ms,
        )

        def change(draft: UnitOfWork) -> ApiKey:
            _check_owner(draft.user(key.user), asked.user)
            return draft.put(key, "created")

        made = await self._act(caller, change)
        return ApiKeyCreated(
            api_key=self._key_view(made), secret=shown(made.id, secret=secret), revision=self._state.revision
        )

    async def revoke_api_key(self, caller: Caller, key_id: str) -> ApiKeyRevoked:
        """Revoke a key, with immediate effect on all servers; its open WebSockets are closed. Idempotent.

        Raises:
            NotFound: there is no such key, or it belongs to another user and the caller is not an admin.
        """

        def change(draft: UnitOfWork) -> ApiKey:
            key = draft.key(KeyId(key_id))
            if key is None or (caller.role < Role.ADMIN and key.user != caller.user):
                short_id = key_id[:NAME_SHOWN_MAX]
                raise NotFound(
                    f"there is no key {short_id}, or it belongs to another user", kind="api_key", id=short_id
                )
            if key.revoked_us is not None:
                return key
            return draft.put(replace(key, revoked_us=self._clock.now_us()), "revoked")

        revoked = await self._journal.transact(change, actor=caller.user, request_id=RequestId(caller.request_id))
        return ApiKeyRevoked(api_key=self._key_view(revoked), revision=self._state.revision)

    async def end_sign_in(self, caller: Caller) -> None:
        """End the browser sign-in of the caller on all servers, for good; its open WebSockets are closed. Idempotent.

        Raises:
            Unavailable: the store cannot be written now.
        """
        sign_in_id = caller.sign_in_id
        if sign_in_id is None:
            return

        def change(draft: UnitOfWork) -> None:
            if draft.key(sign_in_id) is None:
                now_us = self._clock.now_us()
                ended = ApiKey(
                    id=sign_in_id,
                    user=caller.user,
                    name="browser sign-in",
                    scope=KeyScope.READ,
                    digest="",
                    created_us=now_us,
                    revoked_us=now_us,
                )
                draft.put(ended, "revoked")

        await self._journal.transact(change, actor=caller.user, request_id=RequestId(caller.request_id))

    def _key_view(self, key: ApiKey) -> ApiKeyView:
        return key_view(key, self._state.people, now_us=self._clock.now_us())


def _check_owner(user: User | None, name: str) -> None:
    if user is None:
        short_name = name[:NAME_SHOWN_MAX]
        raise NotFound(f"there is no user {short_name}; create the user first", kind="user", id=short_name)
    if user.disabled:
        raise StateConflict(f"user {user.id} is disabled", id=user.id, state="disabled")
