"""Secrets: users' encrypted values for their jobs, the port of their store, and cleanup after disabled users.

The store encrypts values; its interface uses plain text. Values leave the server only in launch orders. Names are in
the event log, values never.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from aliquot.service.access import check_may_submit
from aliquot.service.ports import Clock, StoreUnavailable
from aliquot.service.retention import ClockJumps
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot.service.views.terms import moment
from aliquot_schema.cluster.launching import LaunchOrder
from aliquot_schema.errors import AliquotError, InvalidRequest, LimitExceeded, NotFound, Unavailable
from aliquot_schema.identity.secrets import (
    SECRET_NAME,
    SECRETS_MAX,
    VALUE_BYTES_MAX,
    SecretChanged,
    SecretDeleted,
    SecretGrant,
    SecretNames,
    SecretUse,
    SecretView,
)
from aliquot_schema.ids import RequestId, UserId
from aliquot_schema.requests import Caller


class StoredSecret(Struct, frozen=True, kw_only=True):
    """A secret without its value."""

    name: str
    created_us: int
    changed_us: int


class SecretStore(Protocol):
    """Port of the encrypted store. Every method may raise `StoreUnavailable`."""

    async def names(self, owner: UserId) -> tuple[StoredSecret, ...]:
        """Secrets of an owner, sorted by name."""

    async def put(self, owner: UserId, name: str, value: str, *, now_us: int) -> StoredSecret:
        """Store durably, replacing an older value.

        Raises:
            Unavailable: there is no encryption key.
        """

    async def delete(self, owner: UserId, name: str) -> bool:
        """Delete a secret; returns False when there was none."""

    async def values(self, owner: UserId, names: Collection[str]) -> Mapping[str, str]:
        """Plain-text values by name; unknown names are missing.

        Raises:
            Unavailable: an encryption key is missing; the message says what to do.
        """


log: Final = logging.getLogger("aliquot.secrets")

ACTOR: Final = "system:secrets"


class Secrets:
    """Use cases of secrets. Users can access only their own, whatever their role; values are write-only."""

    def __init__(self, *, clock: Clock, journal: Journal, store: SecretStore | None = None) -> None:
        """
        Args:
            store: None = this server has no secret store.
        """
        self._clock = clock
        self._journal = journal
        self._store = store

    @property
    def has_store(self) -> bool:
        """Whether this server stores secrets."""
        return self._store is not None

    async def secrets(self, caller: Caller) -> tuple[SecretView, ...]:
        """The caller's secrets, without values, sorted by name."""
        return tuple(_view(found) for found in await self._open_store().names(caller.user))

    async def set_secret(self, caller: Caller, name: str, value: str) -> SecretChanged:
        """Store a secret of the caller, replacing an older value.

        Raises:
            InvalidRequest, LimitExceeded, Forbidden, Unavailable.
        """
        check_may_submit(caller)
        store = self._open_store()
        if SECRET_NAME.fullmatch(name) is None:
            text = "name: give 1 to 64 letters, digits and _ . -, beginning with a letter or _"
            raise InvalidRequest(text, field="name")
        _check_value(value)
        known = await store.names(caller.user)
        if len(known) >= SECRETS_MAX and name not in {secret.name for secret in known}:
            text = f"name: you have {SECRETS_MAX} secrets, which is the limit; delete one first"
            raise LimitExceeded(text, field="name", limit=SECRETS_MAX, actual=len(known) + 1)
        now_us = self._clock.now_us()
        await self._record(caller.user, "set", {name: now_us}, known=known, by=caller)
        stored = await store.put(caller.user, name, value, now_us=now_us)
        return SecretChanged(secret=_view(stored))

    async def delete_secret(self, caller: Caller, name: str) -> SecretDeleted:
        """Delete a secret of the caller.

        Raises:
            NotFound, Forbidden, Unavailable.
        """
        check_may_submit(caller)
        store = self._open_store()
        known = await store.names(caller.user)
        if name not in {secret.name for secret in known}:
            raise NotFound(f"you have no secret named {name[:64]}", kind="secret", id=name[:64])
        await self._record(caller.user, "deleted", {name: None}, known=known, by=caller)
        await store.delete(caller.user, name)
        return SecretDeleted(name=name)

    async def clear(self, owner: UserId) -> int:
        """Delete all secrets of an owner; returns their number.

        Raises:
            Unavailable: the database is unavailable.
        """
        store = self._open_store()
        known = await store.names(owner)
        if known:
            await self._record(owner, "deleted", dict.fromkeys(secret.name for secret in known), known=known, by=None)
        for secret in known:
            await store.delete(owner, secret.name)
        return len(known)

    async def check(self, owner: UserId, uses: Sequence[SecretUse]) -> None:
        """Check that the secrets of a new session exist.

        Raises:
            InvalidRequest: one does not exist.
            Unavailable: the database is unavailable.
        """
        known = {secret.name for secret in await self._open_store().names(owner)} if uses else set()
        for use in uses:
            if use.name not in known:
                how = f"store it with `aliquot secret set {use.name}`, or in the dashboard under Keys and secrets"
                raise InvalidRequest(f"secrets: {owner} has no secret {use.name}; {how}", field="secrets")

    async def filled(self, orders: Sequence[LaunchOrder]) -> Sequence[LaunchOrder]:
        """The orders with the values of their secrets; an agent rejects an order with a missing value.

        Raises:
            StoreUnavailable: the database is unavailable.
        """
        asked = dict.fromkeys((grant.owner, grant.use.name) for order in orders for grant in order.secrets)
        found = {(owner, name): await self._value(owner, name) for owner, name in asked}

        def filled(grant: SecretGrant) -> SecretGrant:
            value, why_not = found[grant.owner, grant.use.name]
            return replace(grant, value=value, why_not=why_not)

        return [replace(order, secrets=tuple(map(filled, order.secrets))) for order in orders]

    async def _record(
        self,
        owner: UserId,
        what: str,
        changed: Mapping[str, int | None],
        *,
        known: Sequence[StoredSecret],
        by: Caller | None,
    ) -> None:
        """Write the event before the change: after a crash in between, the audit has it although it was not done."""
        stored = {secret.name: secret.changed_us for secret in known}

        def change(draft: UnitOfWork) -> None:
            known_names = draft.secret_names(owner)
            before = stored if known_names is None else known_names.set_us
            if len(before) > SECRETS_MAX:  # after many interrupted changes
                before = {name: set_us for name, set_us in before.items() if name in stored}
            after = {name: set_us for name, set_us in {**before, **changed}.items() if set_us is not None}
            draft.put(SecretNames(id=owner, set_us=after), what)

        request_id = None if by is None else RequestId(by.request_id)
        await self._journal.transact(change, actor=ACTOR if by is None else by.actor, request_id=request_id)

    async def _value(self, owner: UserId, name: str) -> tuple[str | None, str | None]:
        """(value, why it is missing): one undecryptable secret must not affect the others."""
        try:
            return (await self._open_store().values(owner, [name])).get(name), None
        except StoreUnavailable:
            raise
        except AliquotError as error:  # permanent: the session fails with this message
            log.error("the secret %s of %s cannot be read: %s", name, owner, error.message)
            return None, error.message

    def _open_store(self) -> SecretStore:
        if self._store is None:
            raise Unavailable("this server has no secret store")
        return self._store


def _check_value(value: str) -> None:
    """Check that an environment variable can hold the value. Messages never contain it."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidRequest("value: it is not valid text; it contains an unpaired surrogate", field="value") from None
    if "\0" in value or not value:
        raise InvalidRequest("value: it is empty, or contains a NUL character", field="value")
    if size > VALUE_BYTES_MAX:
        text = f"value: it has {size} bytes, the limit is {VALUE_BYTES_MAX}"
        raise LimitExceeded(text, field="value", limit=VALUE_BYTES_MAX, actual=size)


def _view(stored: StoredSecret) -> SecretView:
    return SecretView(name=stored.name, created_at=moment(stored.created_us), changed_at=moment(stored.changed_us))


KEPT_US: Final = 30 * 86_400 * 1_000_000
"""Secrets of a disabled user are kept this long after the user's last change, so that enabling restores them."""
EVERY_S: Final = 3600.0


class SecretCleanup:
    """Deletes the secrets of users disabled more than `KEPT_US` ago; runs on the leader."""

    def __init__(self, vault: Secrets, *, state: State, clock: Clock, jumps: ClockJumps) -> None:
        self._vault = vault
        self._state = state
        self._clock = clock
        self._jumps = jumps

    async def run(self) -> None:
        """Run every `EVERY_S`, except after a clock jump. Errors are logged, and retried the next time."""
        while True:
            await self._clock.sleep(EVERY_S)
            if not self._jumps.is_steady():
                continue
            try:
                await self.run_once()
            except AliquotError as error:
                log.warning("secrets of disabled users cannot be deleted, retrying: %s", error.message)
            except Exception:
                log.exception("secrets of disabled users cannot be deleted, retrying")

    async def run_once(self) -> int:
        """Delete what is due; returns the number of secrets deleted.

        Raises:
            Unavailable: the database is unavailable.
        """
        if not self._vault.has_store:
            return 0
        before_us = self._clock.wall_us() - KEPT_US
        users = list(self._state.people.users.values())
        gone = [user.id for user in users if user.disabled and user.changed_us <= before_us]
        return sum([await self._vault.clear(name) for name in gone])
