"""Subscribers get every event once and in order, from any starting number and at any speed."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy import Connection, delete

import service_bench
from aliquot.clock import RandomIds, SystemClock
from aliquot.service.audit.audit import AuditQuery, AuditStore, Change
from aliquot.service.ports import StoreUnavailable
from aliquot.service.state.identities import Identities
from aliquot.service.state.journal import Feed, Journal
from aliquot.service.state.state import State
from aliquot.service.subscriptions.events import Record
from aliquot.store.open import open_store
from aliquot.store.tables import EVENTS
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.events import Entity, Event
from aliquot_schema.ids import KernelId, UserId
from aliquot_schema.requests import Caller, Role
from aliquot_schema.views.audit import ChangeView
from core_records import session
from service_bench import agent
from service_stage import CALLER, stage

pytestmark = pytest.mark.anyio

KEPT = 4
OPERATOR = Caller(user=UserId("root"), request_id="req_1", role=Role.OPERATOR)


class Written:
    """A journal over a real store, whose feed keeps few events."""

    def __init__(self, folder: Path) -> None:
        self._clock = SystemClock()
        self.store = open_store(service_bench.database_url, data_folder=folder, now_us=self._clock.now_us)
        self.state = State()
        self.feed = Feed(self.store, revision=0, kept=KEPT)
        self._ids = RandomIds()

    async def open(self) -> None:
        loaded = await self.store.open()
        self.journal = Journal(
            store=self.store, state=self.state, feed=self.feed, clock=self._clock, epoch=loaded.epoch
        )

    async def write(self, count: int) -> None:
        """Commit that many sessions, together."""
        new = [session(id=self._ids.new("ses_"), version=0) for _ in range(count)]
        await asyncio.gather(*(self.journal.transact(lambda d, s=s: d.put(s, "queued"), actor="ann") for s in new))


@pytest.fixture
async def written(tmp_path: Path) -> AsyncIterator[Written]:
    made = Written(tmp_path)
    await made.open()
    yield made
    await made.store.close()


async def take(events: AsyncIterator[Event], count: int) -> list[int]:
    async with asyncio.timeout(60):
        return [(await anext(events)).number for _ in range(count)]


@pytest.mark.parametrize("after", range(13))
async def test_a_follower_from_any_number_gets_later_events_once_also_those_not_in_memory(
    written: Written, after: int
) -> None:
    await written.write(12)
    follower = written.feed.follow(after)
    assert await take(follower, 12 - after) == list(range(after + 1, 13))
    waiting = asyncio.create_task(take(follower, 2))
    await written.write(2)
    assert await waiting == [13, 14]


async def test_a_slow_follower_misses_no_events(written: Written) -> None:
    await written.write(2)
    follower = written.feed.follow(0)
    assert await take(follower, 1) == [1]
    await written.write(20)
    assert await take(follower, 10) == list(range(2, 12))
    await written.write(3)
    assert await take(follower, 14) == list(range(12, 26))


async def test_followers_do_not_disturb_each_other_while_events_are_written(written: Written) -> None:
    followers = [asyncio.create_task(take(written.feed.follow(0), 60)) for _ in range(5)]
    for _ in range(6):
        await written.write(10)
    assert [await follower for follower in followers] == [list(range(1, 61))] * 5


async def test_queue_updates_come_in_order_from_a_given_event_number() -> None:
    async with stage([agent("a", devices=1)], feed_kept=3) as on:
        before = on.state.revision
        first = await on.submit()
        await on.advance()
        on.executor.end_kernel(KernelId(f"{first}.1.0"))
        await on.settle()
        async with asyncio.timeout(60), aclosing(on.watching.queue_updates(CALLER, before)) as updates:
            seen = [await anext(updates) for _ in range(5)]
        assert [update.kind for update in seen] == [
            "session.queued",
            "session.scheduled",
            "session.allocating",
            "session.running",
            "session.completed",
        ]
        assert [update.session.state for update in seen] == [
            "queued",
            "scheduled",
            "allocating",
            "running",
            "completed",
        ]
        numbers = [update.event_number for update in seen]
        async with asyncio.timeout(60), aclosing(on.watching.queue_updates(CALLER, numbers[2])) as again:
            assert [(await anext(again)).event_number for _ in range(2)] == numbers[3:]


async def test_each_queue_update_gives_the_number_waiting_after_its_event_even_if_read_late() -> None:
    async with stage([]) as on:
        before = on.state.revision
        first, _, third = [await on.submit() for _ in range(3)]
        await on.cancel(third)
        await on.cancel(first)
        async with asyncio.timeout(60), aclosing(on.watching.queue_updates(CALLER, before)) as updates:
            assert [(await anext(updates)).pending for _ in range(5)] == [1, 2, 3, 2, 1]


@pytest.mark.parametrize("after", [-1, 10**9])
async def test_a_future_or_invalid_event_number_is_refused(after: int) -> None:
    async with stage([]) as on:
        with pytest.raises(InvalidRequest):
            await anext(on.watching.queue_updates(CALLER, after))


async def test_a_follower_that_asks_for_archived_events_gets_the_first_available_number(written: Written) -> None:
    await written.write(10)
    await written.store.write(remove_until_four)
    with pytest.raises(InvalidRequest, match="after: events 3 to 4 were removed as too old; begin after 4, or"):
        await take(written.feed.follow(2), 1)
    assert await take(written.feed.follow(4), 6) == [5, 6, 7, 8, 9, 10]


async def test_a_server_that_missed_archived_events_must_be_restarted(written: Written) -> None:
    await written.write(10)
    late = Journal(
        store=written.store, state=State(), feed=Feed(written.store, revision=0), clock=SystemClock(), epoch=1
    )
    await written.store.write(remove_until_four)
    with pytest.raises(StoreUnavailable, match=r"is at event 0, and the events up to 4 .* restart it"):
        await late.catch_up()


def remove_until_four(connection: Connection) -> None:
    with connection.begin():
        connection.execute(delete(EVENTS).where(EVENTS.c.number <= 4))


async def test_a_subscriber_gets_only_its_events_and_one_call_after_their_commit() -> None:
    async with stage([agent("a", devices=2)]) as on:
        heard: list[str] = []
        on.journal.subscribe(
            lambda event: heard.append(f"{event.kind} {event.number <= on.state.revision}"),
            to=("session.scheduled", Entity.LEASE),
            settled=lambda: heard.append(f"settled with {len(on.state.leases)} leases"),
        )
        await on.submit(kernels=2)
        assert heard == []
        await on.advance()
        granted = ["session.scheduled True", "lease.granted True", "lease.granted True"]
        assert (sorted(heard[:3]), heard[3:]) == (sorted(granted), ["settled with 2 leases"])


async def test_a_subscription_says_which_events_were_archived_while_it_read_them(written: Written) -> None:
    class Shrinking:
        """An audit store of which the oldest events are archived before it is read."""

        async def changes(self, _: AuditQuery) -> tuple[Change, ...]:
            await written.store.write(partial(_remove, last=6))
            known = {"at_us": 1, "kind": "session.queued", "entity_id": "ses_1", "actor": "ann"}
            absent = {"request_id": None, "pass_number": None, "before": None, "after": {}}
            return tuple(Change(number=number, **known, **absent) for number in range(7, 13))  # type: ignore[arg-type]

    await written.write(12)
    log = Record(people=Identities(), feed=written.feed, book=cast("AuditStore", Shrinking()))
    async with aclosing(cast("AsyncGenerator[ChangeView, None]", log.follow(OPERATOR, 0, ()))) as changes:
        with pytest.raises(InvalidRequest, match="events 1 to 6 were removed as too old"):
            await anext(changes)


def _remove(connection: Connection, *, last: int) -> None:
    with connection.begin():
        connection.execute(delete(EVENTS).where(EVENTS.c.number <= last))
