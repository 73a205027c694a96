"""API keys: created by admins, revoked by admins and by their owners."""

from collections.abc import Callable
from typing import Final
from urllib.parse import urlencode

from msgspec.structs import replace

from aliquot.core.validation.fields import count, label, milliseconds
from aliquot.service.access import AccountSearch, JobAccounts, Trust, check_role, check_writes
from aliquot.service.accounts.key_budgets import GPU_HOUR, open_use
from aliquot.service.accounts.secrets import Secrets
from aliquot.service.accounts.users import NAME_SHOWN_MAX, Users, key_view
from aliquot.service.ports import Clock, Ids
from aliquot.service.state.identities import digest_of, is_secret, new_secret, shown
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.errors import Forbidden, InvalidRequest, NotFound, StateConflict
from aliquot_schema.identity.accounts import FEED_PREFIX, KEY_PREFIX, SIGN_IN_PREFIX, ApiKey, KeyScope, Role, User
from aliquot_schema.identity.secrets import SecretChanged, SecretDeleted, SecretView
from aliquot_schema.ids import KeyId, RequestId, UserId
from aliquot_schema.requests import Caller
from aliquot_schema.views.accounts import (
    ApiKeyCreated,
    ApiKeyRevoked,
    ApiKeyView,
    CalendarFeedView,
    MeView,
    NewApiKey,
)

EXPIRES_S_MAX: Final = 10 * 365 * 86_400
GPU_HOURS_MAX: Final = 1e6
SESSIONS_MAX: Final = 10_000_000


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
        search: AccountSearch = lambda _: None,
        secret: Callable[[], str] = new_secret,
    ) -> None:
        super().__init__(
            state=state, journal=journal, clock=clock, trust=trust, job_accounts=job_accounts, search=search
        )
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
            raise Forbidden(f"only admins may list the keys of other users{caller.scope_hint(Role.ADMIN)}")
        wanted = user if caller.role >= Role.ADMIN else caller.user
        people = self._state.people
        mine = (key for key in people.keys if wanted in (None, people.keys[key].user))
        found = sorted(key for key in mine if not key.startswith((SIGN_IN_PREFIX, FEED_PREFIX)))
        return tuple(self._key_view(people.keys[key]) for key in found)

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
            gpu_use_max=_gpu_use(asked.gpu_hours_max),
            sessions_max=_sessions(asked.sessions_max),
            dry_run_first=asked.dry_run_first or None,
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
            Forbidden: the caller's key only reads, and is another one.
        """
        if caller.key_id != key_id:
            check_writes(caller, self._state.people.keys, what="other keys")

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

        revoked = await self._journal.transact(change, actor=caller.actor, request_id=RequestId(caller.request_id))
        return ApiKeyRevoked(api_key=self._key_view(revoked), revision=self._state.revision)

    async def renew_calendar_feed(self, caller: Caller) -> CalendarFeedView:
        """A new secret address of the caller's calendar feed; the one before stops working.

        Raises:
            Forbidden: the caller's key is for reading alone or expires; the address of a feed does not expire.
            Unavailable: the store cannot be written now.
        """
        key = None if caller.key_id is None else self._state.people.keys.get(caller.key_id)
        if key is not None and (key.scope is KeyScope.READ or key.expires_us is not None):
            raise Forbidden(
                "a key that only reads, or that expires, cannot make a calendar address, which does not expire; "
                "use a key of a wider scope without an expiry, or the dashboard's sign-in"
            )
        secret, now_us = self._new_secret(), self._clock.now_us()
        feed = ApiKey(
            id=KeyId(f"{FEED_PREFIX}{caller.user}"),
            user=caller.user,
            name="calendar feed",
            scope=KeyScope.READ,
            digest=digest_of(secret),
            created_us=now_us,
        )
        await self._journal.transact(
            lambda draft: draft.put(feed, "feed_renewed"), actor=caller.actor, request_id=RequestId(caller.request_id)
        )
        mine = f"/calendar.ics?{urlencode({'user': caller.user, 'secret': secret})}"
        return CalendarFeedView(mine=mine, all=f"{mine}&all=1")

    def opens_feed(self, user: str, secret: str) -> bool:
        """Whether this is the secret of a user's calendar feed, and the user is not disabled."""
        key = self._state.people.keys.get(KeyId(f"{FEED_PREFIX}{user}"))
        if key is None or key.revoked_us is not None or self._state.people.is_disabled(UserId(user)):
            return False
        return is_secret(secret, digest=key.digest)

    async def end_sign_in(self, caller: Caller, *, name: str = "browser sign-in") -> bool:
        """End the browser sign-in of the caller on all servers, for good; its open WebSockets are closed. Returns
        whether it had not ended before.

        Args:
            name: of its record, in the audit log.
        Raises:
            Unavailable: the store cannot be written now.
        """
        sign_in_id = caller.sign_in_id
        if sign_in_id is None:
            return False

        def change(draft: UnitOfWork) -> bool:
            if draft.key(sign_in_id) is not None:
                return False
            now_us = self._clock.now_us()
            ended = ApiKey(
                id=sign_in_id,
                user=caller.user,
                name=name,
                scope=KeyScope.READ,
                digest="",
                created_us=now_us,
                revoked_us=now_us,
            )
            draft.put(ended, "revoked")
            return True

        return await self._journal.transact(change, actor=caller.actor, request_id=RequestId(caller.request_id))

    def _key_view(self, key: ApiKey) -> ApiKeyView:
        now_us = self._clock.now_us()
        held = open_use(self._state, key.id, now_us=now_us) if key.has_budget else 0
        return key_view(key, self._state.people, now_us=now_us, open_use=held)


def _check_owner(user: User | None, name: str) -> None:
    if user is None:
        short_name = name[:NAME_SHOWN_MAX]
        raise NotFound(f"there is no user {short_name}; create the user first", kind="user", id=short_name)
    if user.disabled:
        raise StateConflict(f"user {user.id} is disabled", id=user.id, state="disabled")


def _gpu_use(hours: float | None) -> int | None:
    if hours is None:
        return None
    if not 0 < hours <= GPU_HOURS_MAX:
        raise InvalidRequest(f"gpu_hours_max: give more than 0, at most {GPU_HOURS_MAX:g}", field="gpu_hours_max")
    return round(hours * GPU_HOUR)


def _sessions(number: int | None) -> int | None:
    return None if number is None else count(number, field="sessions_max", least=1, most=SESSIONS_MAX)
