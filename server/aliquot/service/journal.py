"""The journal: commits drafts, and lets the state follow in the order of the event numbers."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from aliquot.service.draft import Draft
from aliquot.service.feed import Feed
from aliquot.service.ports import Batch, Clock, DuplicateKey, NotLeader, StaleVersion, Store, StoreUnavailable
from aliquot.service.recalling import born_in, dependencies_in, in_memory, recalled
from aliquot.service.state import State
from aliquot_schema.errors import AliquotError, Unavailable
from aliquot_schema.events import Event
from aliquot_schema.ids import RequestId
from aliquot_schema.leases import Lease
from aliquot_schema.quotas import Account
from aliquot_schema.sessions import Session

T = TypeVar("T")

log: Final = logging.getLogger("aliquot.journal")

TRIES_MAX: Final = 64
STALE_WAIT_S: Final = 1.0
RETRY_S_FIRST: Final = 0.1
RETRY_S_MAX: Final = 5.0
PAGE: Final = 1000
"""Events read from the store at once; the state of a server that works is never that far behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Who changes something, and because of what."""

    actor: str
    request_id: RequestId | None = None
    pass_number: int | None = None
    is_leader: bool = False
    """Whether it is for a leader alone to do."""


class Journal:
    """The one way in which anything changes."""

    def __init__(
        self, *, store: Store, state: State, feed: Feed, clock: Clock, epoch: int, is_shared: bool = False
    ) -> None:
        """
        Args:
            epoch: of the term in which this server leads, from the start on unless `is_shared`.
            is_shared: whether other servers write the store too.
        """
        self._store = store
        self._state = state
        self._feed = feed
        self._clock = clock
        self._early: dict[int, Event] = {}
        self._overtaken = asyncio.Lock()
        """Changes that were overtaken once are tried again one by one: they cannot overtake each other for ever."""
        self._is_shared = is_shared
        self._is_unsure = False
        """Whether the store may hold a commit that it did not tell of."""
        self._granting: set[asyncio.Future[None]] = set()
        """Commits under way that grant leases."""
        self.epoch = epoch
        self.leads = not is_shared
        self.listeners: list[Callable[[Event], None]] = []
        """Called for every event once it is in the state."""
        self.settled: list[Callable[[], None]] = []
        """Called when all events of a commit, or of a page of the log, are in the state."""

    def lead(self, epoch: int) -> None:
        """From now on commits are a leader's, and hold as long as nobody begins a later term."""
        self.epoch, self.leads = epoch, True

    def follow(self) -> None:
        """From now on only what people ask for is committed here."""
        self.leads = False

    async def transact(self, change: Callable[[Draft], T], *, actor: str, request_id: RequestId | None = None) -> T:
        """Commit what `change` writes into a draft, and return what it returned, once the state holds it.

        When a row was changed by somebody else meanwhile, `change` is called again on the newer state. Any server may
        do this, leader or not.

        Raises:
            DuplicateKey, StoreUnavailable: as the store says.
            Unavailable: it was overtaken again and again.
            Whatever `change` raises; nothing is written then.
        """
        origin = Origin(actor=actor, request_id=request_id)
        try:
            return await self._until_written(change, origin)
        except NotLeader as error:
            log.warning("another server leads: %s", error)
            self.follow()
            return await self._until_written(change, origin)

    async def persist(self, change: Callable[[Draft], T], *, actor: str, pass_number: int | None = None) -> T:
        """As `transact`, for what the leader itself has to do: while the store cannot be written it waits and tries
        again. What was written without its saying so is read back first, and so is not written twice.

        Raises:
            NotLeader: this server leads no more.
        """
        origin = Origin(actor=actor, pass_number=pass_number, is_leader=True)
        wait_s = RETRY_S_FIRST
        while True:
            try:
                return await self._until_written(change, origin)
            except StoreUnavailable as error:
                log.error("%s waits, for the store cannot be written: %s", actor, error)
            await self._clock.sleep(wait_s)
            wait_s = min(2 * wait_s, RETRY_S_MAX)
            with suppress(StoreUnavailable):
                await self.catch_up()

    async def catch_up(self) -> bool:
        """Take in what the store has committed and the state does not have yet, at most `PAGE` events of it; returns
        whether there was anything."""
        seen = self._state.revision
        events = await self._store.events_after(seen, limit=PAGE)
        if events and events[0].number > seen + 1:
            raise StoreUnavailable(
                f"this server has seen event {seen}, and those up to {events[0].number - 1} were removed as too old; "
                "start it again"
            )
        wanted, born = dependencies_in(events), born_in(events)
        old = await recalled(wanted - born, state=self._state, store=self._store)
        with in_memory(old, state=self._state, besides=wanted & born):
            self._absorb(events)
        return self._state.revision > seen

    async def _until_written(self, change: Callable[[Draft], T], origin: Origin) -> T:
        with suppress(StaleVersion):
            return await self._attempt(change, origin)
        async with self._overtaken:
            for _ in range(TRIES_MAX):
                with suppress(StaleVersion):
                    return await self._attempt(change, origin)
        raise Unavailable(f"a change by {origin.actor} was overtaken {TRIES_MAX} times; try again")

    async def _attempt(self, change: Callable[[Draft], T], origin: Origin) -> T:
        if self._is_unsure:
            await self.catch_up()
            self._is_unsure = False
        draft = Draft(self._state)
        try:
            result = change(draft)
        except AliquotError:
            # What cannot be done to an old state may well be possible in the present one.
            if not self._is_shared or not await self.catch_up():
                raise
            raise StaleVersion("the log has grown since") from None
        if draft.writes:
            await self._commit(draft, origin)
        return result

    async def _commit(self, draft: Draft, origin: Origin) -> None:
        if origin.is_leader and not self.leads:
            raise NotLeader(f"{origin.actor} has nothing to do here: another server leads")
        batch = Batch(
            writes=tuple(draft.writes),
            at_us=self._clock.now_us(),
            actor=origin.actor,
            request_id=origin.request_id,
            pass_number=origin.pass_number,
            epoch=self.epoch if self.leads else None,
        )
        seen = self._state.revision
        if self._granting and any(isinstance(write.record, Account) for write in batch.writes):
            # What is being granted is not in the state yet, and would be missing in what its owner is charged.
            await self._newer_than(seen)
            raise StaleVersion("devices are being granted")
        try:
            finishing = asyncio.ensure_future(self._finish(batch))
            if any(isinstance(write.record, Lease) and write.record.released_us is None for write in batch.writes):
                self._granting.add(finishing)
                finishing.add_done_callback(self._granting.discard)
            finishing.add_done_callback(_see_end)  # when whoever waits for it is canceled, nobody else does
            await asyncio.shield(finishing)
        except StaleVersion:
            await self._newer_than(seen)
            raise
        except DuplicateKey as error:
            if any(isinstance(write.record, Session) and write.record.version == 1 for write in batch.writes):
                raise
            # Somebody else wrote down first what there is one of: an account, a quota, the orchestrator's switch.
            await self._newer_than(seen)
            raise StaleVersion(str(error)) from error

    async def _finish(self, batch: Batch) -> None:
        """Shielded from cancellation: what is committed must reach the state, and have its effects, all the same."""
        try:
            events = await self._store.commit(batch)
        except StoreUnavailable:
            self._is_unsure = True
            raise
        self._absorb(events)
        while self._feed.revision < events[-1].number:
            await self._newer_than(self._feed.revision)

    def _absorb(self, events: tuple[Event, ...]) -> None:
        self._early.update((event.number, event) for event in events if event.number > self._state.revision)
        while (event := self._early.pop(self._state.revision + 1, None)) is not None:
            self._state.apply(event)
            self._feed.publish(event)
            for listener in self.listeners:
                listener(event)
        for call in self.settled:
            call()

    async def _newer_than(self, seen: int) -> None:
        """Wait until the state is newer than `seen`; what another server committed is read from the store."""
        try:
            async with asyncio.timeout(STALE_WAIT_S):
                await self._feed.reached(seen + 1)
        except TimeoutError:
            await self.catch_up()


def _see_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
