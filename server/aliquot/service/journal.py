"""The journal: commits drafts, and lets the state follow in the order of the event numbers."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from aliquot.service.draft import Draft
from aliquot.service.feed import Feed
from aliquot.service.ports import Batch, Clock, StaleVersion, Store
from aliquot.service.state import State
from aliquot_schema.events import Event
from aliquot_schema.ids import RequestId

T = TypeVar("T")

TRIES_MAX: Final = 64
STALE_WAIT_S: Final = 1.0


class Journal:
    """The one way in which anything changes."""

    def __init__(self, *, store: Store, state: State, feed: Feed, clock: Clock, epoch: int) -> None:
        self._store = store
        self._state = state
        self._feed = feed
        self._clock = clock
        self._early: dict[int, Event] = {}
        self.epoch = epoch
        self.listeners: list[Callable[[Event], None]] = []
        """Called for every event once it is in the state."""

    async def transact(
        self,
        change: Callable[[Draft], T],
        *,
        actor: str,
        request_id: RequestId | None = None,
        pass_number: int | None = None,
    ) -> T:
        """Commit what `change` writes into a draft, and return what it returned, once the state holds it.

        When a row was changed by somebody else meanwhile, `change` is called again on the newer state.

        Raises:
            DuplicateKey, NotLeader, StoreUnavailable: as the store says.
            Whatever `change` raises; nothing is written then.
        """
        for _ in range(TRIES_MAX):
            draft = Draft(self._state)
            result = change(draft)
            if not draft.writes:
                return result
            seen = self._state.revision
            try:
                await self._commit(draft, actor=actor, request_id=request_id, pass_number=pass_number)
            except StaleVersion:
                await self._catch_up(seen)
                continue
            for call in draft.afterwards:
                call()
            return result
        raise AssertionError(f"a change by {actor} was overtaken {TRIES_MAX} times")

    async def _commit(self, draft: Draft, *, actor: str, request_id: RequestId | None, pass_number: int | None) -> None:
        batch = Batch(
            writes=tuple(draft.writes),
            at_us=self._clock.now_us(),
            actor=actor,
            request_id=request_id,
            pass_number=pass_number,
            epoch=self.epoch,
        )
        events = await asyncio.shield(asyncio.ensure_future(self._commit_and_absorb(batch)))
        while self._feed.revision < events[-1].number:
            await self._catch_up(self._feed.revision)

    async def _commit_and_absorb(self, batch: Batch) -> tuple[Event, ...]:
        """Shielded from cancellation: what is committed must reach the state even when nobody waits for it."""
        events = await self._store.commit(batch)
        self._absorb(events)
        return events

    def _absorb(self, events: tuple[Event, ...]) -> None:
        self._early.update((event.number, event) for event in events if event.number > self._state.revision)
        while (event := self._early.pop(self._state.revision + 1, None)) is not None:
            self._state.apply(event)
            self._feed.publish(event)
            for listener in self.listeners:
                listener(event)

    async def _catch_up(self, seen: int) -> None:
        """Wait until the state is newer than `seen`; what another server committed is read from the store."""
        try:
            await asyncio.wait_for(self._feed.reached(seen + 1), STALE_WAIT_S)
        except TimeoutError:
            self._absorb(await self._store.events_after(self._state.revision, limit=1000))
