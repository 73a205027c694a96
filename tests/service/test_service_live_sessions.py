"""Session subscriptions: each subscriber gets all events of its session, at any speed."""

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing

import pytest

from aliquot.service.subscriptions import sessions
from aliquot.service.subscriptions.sessions import SessionEventBuffers, session_of
from aliquot_schema.events import Event
from aliquot_schema.ids import KernelId, SessionId
from service_bench import agent
from service_stage import CALLER, Stage, stage
from service_wrapped_store import WrappedStore

pytestmark = pytest.mark.anyio


async def live(on: Stage, chance: random.Random, known: list[SessionId]) -> None:
    """A random event of some session."""
    if len(known) < 3 or chance.random() < 0.3:
        known.append(await on.submit(kernels=chance.randint(1, 3)))
    running = on.live()
    if running and chance.random() < 0.4:
        on.executor.end_kernel(KernelId(chance.choice(running)), code=chance.choice([0, 1]))
    await on.advance()
    waiting = list(on.state.pending)
    if waiting and chance.random() < 0.3:
        await on.cancel(chance.choice(waiting))


def expected(events: tuple[Event, ...], session_id: SessionId, after: int) -> list[int]:
    return [event.number for event in events if event.number > after and session_of(event) == session_id]


@pytest.mark.parametrize("seed", range(4))
async def test_a_follower_of_a_session_gets_each_event_once_from_any_number_on(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trails are so short here that a subscriber that pauses falls off their end, and catches up."""
    monkeypatch.setattr(sessions, "KEPT", 3)
    chance, known = random.Random(seed), list[SessionId]()
    async with stage([agent("a", devices=4)], feed_kept=20) as on, AsyncExitStack() as stack:
        heard: list[tuple[SessionId, int, AsyncIterator[Event], list[int]]] = []
        for _ in range(40):
            await live(on, chance, known)
            if len(heard) < 6:
                session_id, after = chance.choice(known), chance.randint(0, on.state.revision)
                events = await stack.enter_async_context(aclosing(on.watching._trails.follow(session_id, after)))
                heard.append((session_id, after, events, []))
            for session_id, after, events, told in heard:
                ahead = len(expected(await on.events(), session_id, after)) - len(told)
                for _ in range(chance.randint(0, ahead)):
                    told.append((await anext(events)).number)
        log = await on.events()
        for session_id, after, events, told in heard:
            while len(told) < len(expected(log, session_id, after)):
                told.append((await anext(events)).number)
            assert told == expected(log, session_id, after)
        assert sum(len(told) for *_, told in heard) > 10


async def test_no_events_are_kept_for_sessions_without_a_follower() -> None:
    async with stage([agent("a", devices=1)]) as on:
        found: SessionEventBuffers = on.watching._trails
        session_id = await on.submit()
        async with aclosing(found.follow(session_id, 0)) as events:
            await anext(events)
            assert len(found.followed) == 1
        assert not found.followed


async def test_session_updates_match_the_recorded_events_of_session_and_kernels() -> None:
    async with stage([agent("a", devices=2)]) as on:
        session_id = await on.submit(kernels=2)
        await on.advance()
        async with aclosing(on.watching.session_updates(CALLER, session_id, 0)) as updates:  # type: ignore[type-var]  # a generator
            for event in await on.events():
                if session_of(event) != session_id:
                    continue
                update = await anext(updates)
                assert (update.event_number, update.kind, update.is_snapshot) == (event.number, event.kind, False)
                changed = update.kernel or update.session
                assert (changed.id, changed.state) == (event.entity_id, event.record.state)  # type: ignore[union-attr]  # of either


async def test_a_late_follower_of_a_session_catches_up_without_reading_the_whole_log() -> None:
    """Events of other sessions are not read."""
    asked: list[int] = []

    class Counting(WrappedStore):
        async def events_after(self, number: int, *, limit: int) -> tuple[Event, ...]:
            found: tuple[Event, ...] = await self._store.events_after(number, limit=limit)
            asked.append(len(found))
            return found

    async with stage([agent("a", devices=2)], feed_kept=5, wrap=Counting) as on:
        first = await on.submit(kernels=2)
        await on.advance()
        for _ in range(5):
            await on.cancel(await on.submit())
        wanted = [event for event in await on.store.events_after(0, limit=1000) if session_of(event) == first]
        held = await on.store.events_of(first, after=0, limit=1000)
        assert held == tuple(wanted)
        assert await on.store.events_of(first, after=wanted[2].number, limit=2) == tuple(wanted[3:5])
        asked.clear()
        async with aclosing(on.watching._trails.follow(first, 0)) as events:
            assert [await anext(events) for _ in wanted] == wanted
        assert sum(asked) <= 1


async def test_updates_of_a_session_that_left_memory_include_its_kernels() -> None:
    async with stage([agent("a", devices=1)], ended_kept=0) as on:
        session_id = await on.submit()
        await on.advance()
        on.executor.end_kernel(KernelId(on.live()[0]), code=3)
        await on.settle()
        assert session_id not in on.state.sessions
        wanted = [event for event in await on.events() if session_of(event) == session_id]
        async with aclosing(on.watching.session_updates(CALLER, session_id, 0)) as updates:  # type: ignore[type-var]  # a generator
            found = [await anext(updates) for _ in wanted]
        assert [update.event_number for update in found] == [event.number for event in wanted]
        assert {update.kernel.exit_code for update in found if update.kernel is not None} == {None, 3}
