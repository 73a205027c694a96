"""Journal: commits units of work and applies the events to the state; the feed distributes committed events.

Events reach the state and the feed strictly in the order of their numbers, whatever the order in which commits return.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import suppress
from typing import Any, Final, TypeVar

from msgspec import Struct

from aliquot.core.clock_correction import ClockCorrection
from aliquot.service.ports import Batch, Clock, DuplicateKey, NotLeader, StaleVersion, Store, StoreUnavailable
from aliquot.service.state.evicted_sessions import created_in, dependencies_in, in_memory, recalled
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.async_tasks import run_shielded
from aliquot_schema.errors import AliquotError, InvalidRequest, Unavailable
from aliquot_schema.events import Event
from aliquot_schema.ids import RequestId, SessionId
from aliquot_schema.orchestration import CLOCK_CORRECTED, Action
from aliquot_schema.quotas import Account
from aliquot_schema.resources.leases import Lease
from aliquot_schema.sessions import Session

KEPT: Final = 4096
"""Events kept in memory; followers that are further behind read the store."""
FEED_PAGE: Final = 500


class Feed:
    """Ring buffer of the newest events. A follower keeps only its own position, so a slow follower costs nothing."""

    def __init__(self, store: Store, *, revision: int, kept: int = KEPT) -> None:
        self._store = store
        self._ring: deque[Event] = deque(maxlen=kept)
        self.revision = revision
        self._news = asyncio.Event()

    @property
    def last(self) -> Event | None:
        """The newest event; None before the first one since the start."""
        return self._ring[-1] if self._ring else None

    def publish(self, event: Event) -> None:
        """Append the next event."""
        self._ring.append(event)
        self.revision = event.number
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def reached(self, number: int) -> None:
        """Wait until the state contains this event number."""
        while self.revision < number:
            await self._news.wait()

    async def follow(self, after: int) -> AsyncGenerator[Event, None]:
        """Events numbered above `after`, in order, without gaps or repeats; never ends.

        Raises:
            InvalidRequest: the next event was archived.
        """
        position = after
        while True:
            for event in await self.page(position):
                position = event.number
                yield event
            await self.reached(position + 1)

    async def page(self, after: int) -> tuple[Event, ...]:
        """The next events numbered above `after`, at most `FEED_PAGE` of them; none if there are none yet.

        Raises:
            InvalidRequest: the next event was archived.
        """
        if after >= self.revision:
            return ()
        oldest = self._oldest
        if after + 1 < oldest:
            return _without_gap(after, await self._store.events_after(after, limit=FEED_PAGE))
        skip = after + 1 - oldest
        return tuple(self._ring[index] for index in range(skip, min(skip + FEED_PAGE, len(self._ring))))

    def keeps(self, after: int) -> bool:
        """Whether all events numbered above `after` are in memory."""
        return after + 1 >= self._oldest

    async def stored_events_of(self, session_id: SessionId, after: int) -> tuple[tuple[Event, ...], int]:
        """The next events of one session, from the store, and the number up to which they are complete.

        Raises:
            InvalidRequest: an event after `after` was archived, of this or another session.
        """
        seen = self.revision
        found = await self._store.events_of(session_id, after=after, limit=FEED_PAGE)
        # After reading: events that were removed before the read are missing now.
        _without_gap(after, await self._store.events_after(after, limit=1))
        last = found[-1].number if found else seen
        return found, last if len(found) == FEED_PAGE else max(seen, last)

    @property
    def _oldest(self) -> int:
        """The number of the oldest event in memory, or of the next one."""
        return self._ring[0].number if self._ring else self.revision + 1


def _without_gap(after: int, events: tuple[Event, ...]) -> tuple[Event, ...]:
    if events and events[0].number != after + 1:
        oldest = events[0].number
        raise InvalidRequest(
            f"after: events {after + 1} to {oldest - 1} were removed as too old; begin after {oldest - 1}, "
            "or omit `after` to begin with new events",
            field="after",
        )
    return events


T = TypeVar("T")

log: Final = logging.getLogger("aliquot.journal")

TRIES_MAX: Final = 64
STALE_WAIT_S: Final = 1.0
RETRY_S_FIRST: Final = 0.1
RETRY_S_MAX: Final = 5.0
SETTLE_ROUNDS: Final = 20
"""Under load there is always a commit in progress; then the wait ends after this many rounds."""
PAGE: Final = 1000
"""Events per read from the store; the state of a healthy server is never that far behind."""


class Origin(Struct, frozen=True, kw_only=True):
    """Actor and cause of a change."""

    actor: str
    request_id: RequestId | None = None
    pass_number: int | None = None
    is_leader: bool = False
    """Whether only a leader may commit it."""


class Subscription:
    """A listener of the journal, see `Journal.subscribe`."""

    __slots__ = ("_to", "listener", "settled")

    def __init__(
        self,
        listener: Callable[[Event], None] | None,
        *,
        to: frozenset[str] | None,
        settled: Callable[[], None] | None,
    ) -> None:
        self.listener = listener
        self.settled = settled
        self._to = to

    def is_to(self, kind: str, entity: str) -> bool:
        """Whether it is called for such an event."""
        return self._to is None or kind in self._to or entity in self._to


class _StateBehindLog(StaleVersion):
    """A change was tried on a state that lacked events of the log; the state has them now."""


class Journal:
    """The only way to change durable state."""

    def __init__(
        self, *, store: Store, state: State, feed: Feed, clock: Clock, epoch: int | None = None, is_shared: bool = False
    ) -> None:
        """
        Args:
            epoch: of the term in which this server leads from the start; None = it follows until `lead`.
            is_shared: whether other servers also write the store.
        """
        self._store = store
        self._state = state
        self._feed = feed
        self._clock = clock
        self._early: dict[int, Event] = {}
        self._retrying = asyncio.Lock()
        """Serializes retries after a conflict, so that they cannot conflict with each other without end."""
        self._is_shared = is_shared
        self._unconfirmed = 0
        """Commits that the store did not confirm, and may hold."""
        self._read_back = 0
        """How many of these were before the last time the store was read for them."""
        self._granting: set[asyncio.Future[Any]] = set()
        """Commits in progress that grant leases."""
        self._in_flight: set[asyncio.Future[None]] = set()
        """All commits in progress."""
        self.unreachable: str | None = None
        """Why the database cannot be reached now: users' changes are refused at once. None = it can, or is unknown."""
        self.epoch = epoch or 0
        self.leads = epoch is not None and not is_shared
        self.subscriptions: list[Subscription] = []
        """In the order in which they are called."""
        self._called: dict[tuple[str, str], tuple[Subscription, ...]] = {}
        """The subscriptions to each kind and entity of event."""

    def subscribe(
        self,
        listener: Callable[[Event], None] | None = None,
        *,
        to: Iterable[str] | None = None,
        settled: Callable[[], None] | None = None,
    ) -> Subscription:
        """Call a listener for each event once it is in the state.

        Args:
            to: kinds of events, such as `session.canceled`, or entities, such as `user`; None = all events.
            settled: called once after each commit with such an event, or page of such events read from the log, when
                all its events are in the state.
        """
        subscription = Subscription(listener, to=None if to is None else frozenset(to), settled=settled)
        self.subscriptions.append(subscription)
        self._called.clear()
        return subscription

    def unsubscribe(self, *subscriptions: Subscription) -> None:
        """End subscriptions."""
        for subscription in subscriptions:
            self.subscriptions.remove(subscription)
        self._called.clear()

    def lead(self, epoch: int) -> None:
        """Commit as the leader of this epoch; the store rejects commits once a later epoch has begun."""
        self.epoch, self.leads = epoch, True

    def follow(self) -> None:
        """Commit as a follower: only changes that users requested."""
        self.leads = False

    def refuse_changes(self, reason: str | None) -> None:
        """Refuse users' changes at once, while the database cannot be reached; None = accept them."""
        self.unreachable = reason

    async def transact(
        self, change: Callable[[UnitOfWork], T], *, actor: str, request_id: RequestId | None = None
    ) -> T:
        """Commit what `change` writes, and return its result once the state contains it. Any server may do this.

        When a row was changed concurrently, `change` is called again on the newer state.

        Raises:
            DuplicateKey: from the store.
            StoreUnavailable: from the store, or immediately while `unreachable` is set.
            Unavailable: still in conflict after `TRIES_MAX` attempts.
            Any error of `change`; nothing is written then.
        """
        if self.unreachable is not None:
            raise StoreUnavailable(self.unreachable)
        origin = Origin(actor=actor, request_id=request_id)
        try:
            return await self._retried(change, origin)
        except NotLeader as error:
            log.warning("another server leads: %s", error)
            self.follow()
            return await self._retried(change, origin)

    async def persist(self, change: Callable[[UnitOfWork], T], *, actor: str, pass_number: int | None = None) -> T:
        """As `transact`, for the leader's own changes: retries with back-off while the store cannot be written.

        Unconfirmed commits are read back before each retry, so nothing is written twice.

        Raises:
            NotLeader: this server no longer leads.
        """
        origin = Origin(actor=actor, pass_number=pass_number, is_leader=True)
        wait_s = RETRY_S_FIRST
        while True:
            try:
                return await self._retried(change, origin)
            except StoreUnavailable as error:
                if wait_s == RETRY_S_FIRST:
                    log.error("%s: the store cannot be written, retrying: %s", actor, error)
            await self._clock.sleep(wait_s)
            wait_s = min(2 * wait_s, RETRY_S_MAX)
            with suppress(StoreUnavailable):
                await self.catch_up()

    async def settle(self) -> None:
        """Wait for the commits in progress, so that the next change follows all of them and sees what they wrote."""
        for _ in range(SETTLE_ROUNDS):
            if not self._in_flight:
                return
            await asyncio.wait(self._in_flight)

    async def catch_up(self) -> bool:
        """Apply up to `PAGE` events that the store has and the state does not; returns whether there were any."""
        seen = self._state.revision
        events = await self._store.news_after(seen, limit=PAGE)
        if events and events[0].number > seen + 1:
            raise StoreUnavailable(
                f"this server is at event {seen}, and the events up to {events[0].number - 1} were removed as too old; "
                "restart it"
            )
        wanted, born = dependencies_in(events), created_in(events)
        old = await recalled(wanted - born, state=self._state, store=self._store)
        with in_memory(old, state=self._state, besides=wanted & born):
            self._absorb(events)
        return self._state.revision > seen

    async def _retried(self, change: Callable[[UnitOfWork], T], origin: Origin) -> T:
        is_current = False
        try:
            return await self._attempt(change, origin, is_current=is_current)
        except StaleVersion as error:
            is_current = isinstance(error, _StateBehindLog)
        async with self._retrying:
            for _ in range(TRIES_MAX):
                try:
                    return await self._attempt(change, origin, is_current=is_current)
                except StaleVersion as error:
                    is_current = is_current or isinstance(error, _StateBehindLog)
        raise Unavailable(f"a change by {origin.actor} conflicted with other changes {TRIES_MAX} times; try again")

    async def _attempt(self, change: Callable[[UnitOfWork], T], origin: Origin, *, is_current: bool) -> T:
        """
        Args:
            is_current: the state has everything that was committed before this change was requested. Otherwise, a
                user's change that is refused, or changes nothing, is not answered before the log was read to its end:
                another server may have committed what makes it possible, or necessary.
        """
        if (unconfirmed := self._unconfirmed) > self._read_back:
            await self.catch_up()
            self._read_back = max(self._read_back, unconfirmed)
        draft = UnitOfWork(self._state)
        try:
            result = change(draft)
        except AliquotError:
            if not is_current and await self._was_old():
                raise _StateBehindLog from None
            raise
        if draft.writes:
            await self._commit(draft, origin)
        elif not is_current and not origin.is_leader and await self._was_old():
            raise _StateBehindLog
        return result

    async def _was_old(self) -> bool:
        """Read the log to its end; returns whether other servers had committed anything."""
        if not self._is_shared:
            return False
        began = self._state.revision
        while True:
            seen = self._state.revision
            await self.catch_up()
            if self._state.revision - seen < PAGE:
                return self._state.revision > began

    async def _commit(self, draft: UnitOfWork, origin: Origin) -> None:
        if origin.is_leader and not self.leads:
            raise NotLeader(f"{origin.actor} may only write on the leader, and another server leads")
        batch = Batch(
            writes=tuple(draft.writes),
            at_us=_corrected_us(draft) or self._clock.now_us(),
            actor=origin.actor,
            request_id=origin.request_id,
            pass_number=origin.pass_number,
            epoch=self.epoch if self.leads else None,
            seen=self._state.revision,
        )
        seen = self._state.revision
        granting = [one for one in self._granting if not one.done()]
        if granting and any(isinstance(write.record, Account) for write in batch.writes):
            # Leases being granted are not in the state yet, and their usage would be missing in the account.
            await asyncio.wait(granting)
            raise StaleVersion("devices are being granted")
        try:
            grants = any(isinstance(write.record, Lease) and write.record.released_us is None for write in batch.writes)
            finishing = asyncio.ensure_future(self._finish(batch))
            self._in_flight.add(finishing)
            finishing.add_done_callback(self._in_flight.discard)
            await run_shielded(finishing, tasks=self._granting if grants else None)
        except StaleVersion:
            await self._newer_than(seen)
            raise
        except DuplicateKey as error:
            if any(isinstance(write.record, Session) and write.record.version == 1 for write in batch.writes):
                raise
            # Another writer created the same unique record first: an account, a quota, the orchestration record.
            await self._newer_than(seen)
            raise StaleVersion(str(error)) from error

    async def _finish(self, batch: Batch) -> None:
        """Runs shielded from cancellation: committed events must reach the state and its listeners in any case."""
        try:
            events = await self._store.commit(batch)
        except StoreUnavailable:
            self._unconfirmed += 1
            raise
        self._absorb(events)
        while self._feed.revision < events[-1].number:
            await self._newer_than(self._feed.revision)

    def _absorb(self, events: tuple[Event, ...]) -> None:
        due: dict[Subscription, Callable[[], None]] = {}
        self._early.update((event.number, event) for event in events if event.number > self._state.revision)
        while (event := self._early.pop(self._state.revision + 1, None)) is not None:
            if event.kind == CLOCK_CORRECTED:
                self._clock.correct(event.at_us)
            self._state.apply(event)
            self._feed.publish(event)
            for subscription in self._called_for(event):
                if subscription.listener is not None:
                    subscription.listener(event)
                if subscription.settled is not None:
                    due[subscription] = subscription.settled
        for call in due.values():
            call()

    def _called_for(self, event: Event) -> tuple[Subscription, ...]:
        key = event.kind, event.entity
        found = self._called.get(key)
        if found is None:
            found = self._called[key] = tuple(one for one in self.subscriptions if one.is_to(*key))
        return found

    async def _newer_than(self, seen: int) -> None:
        """Wait until the state is newer than `seen`; reads the store when another server committed."""
        try:
            async with asyncio.timeout(STALE_WAIT_S):
                await self._feed.reached(seen + 1)
        except TimeoutError:
            await self.catch_up()


def _corrected_us(draft: UnitOfWork) -> int | None:
    """The time from which the clock continues, if the draft corrects it."""
    found = (write.record for write in draft.writes if write.kind == CLOCK_CORRECTED)
    return next((ClockCorrection.of(record).to_us for record in found if isinstance(record, Action)), None)
