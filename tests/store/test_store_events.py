"""The event log: gap-free numbers in commit order, a tamper-evident chain, and a fold equal to the state."""

import asyncio
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sqlalchemy import Connection, delete, select, update

import store_records as make
from aliquot.service.ports import Batch, NotLeader, Store, StoreUnavailable
from aliquot.store.commit import commit_group
from aliquot.store.hash_chain import CHAIN_START, ChainBroken, verify
from aliquot.store.mapping import MAPPINGS
from aliquot.store.queries.queries import events_after
from aliquot.store.store import Database
from aliquot.store.tables import COUNTER, EVENTS
from aliquot_schema.events import Record
from store_places import Place

pytestmark = pytest.mark.anyio


async def test_event_numbers_have_no_gaps_and_follow_commit_order(store: Store) -> None:
    seen: list[int] = []

    async def client() -> None:
        for _ in range(25):
            events = await store.commit(make.batch(make.session(), make.session()))
            seen.extend(event.number for event in events)

    await asyncio.gather(*(client() for _ in range(16)))
    assert seen == list(range(1, 801))
    pages = [await store.events_after(after, limit=300) for after in (0, 300, 600)]
    assert [event.number for page in pages for event in page] == seen


async def test_a_failed_batch_uses_no_event_number(store: Store) -> None:
    await store.commit(make.batch(make.session()))
    with pytest.raises(NotLeader):
        await store.commit(make.batch(make.session(), epoch=99))
    (event,) = await store.commit(make.batch(make.session()))
    assert event.number == 2


async def test_a_database_behind_the_events_a_server_has_read_refuses_commits(store: Store) -> None:
    """A lagging replica that replaced the database which had confirmed more events."""
    await store.commit(make.batch(make.session(), make.session()))
    with pytest.raises(StoreUnavailable, match=r"ends at event 2, and the cluster .* had reached event 3"):
        await store.commit(make.batch(make.session(), seen=3))
    with pytest.raises(StoreUnavailable, match="ends at event 2"):
        await store.news_after(3, limit=10)
    assert await store.news_after(2, limit=10) == ()
    (event,) = await store.commit(make.batch(make.session(), seen=2))
    assert event.number == 3


async def test_opening_a_store_begins_a_new_epoch_and_continues_the_event_log(place: Place) -> None:
    first = place.store()
    loaded = await first.open()
    assert (loaded.epoch, loaded.revision, loaded.records) == (1, 0, ())
    await first.commit(make.batch(make.session(), epoch=1, at_us=70, pass_number=9))
    await first.commit(make.batch(make.session(), at_us=60, pass_number=None))
    await first.close()

    second = place.store()
    loaded = await second.open()
    assert (loaded.epoch, loaded.revision, loaded.last_at_us, loaded.last_pass) == (2, 2, 70, 9)
    with pytest.raises(NotLeader):
        await second.commit(make.batch(make.session(), epoch=1))
    (event,) = await second.commit(make.batch(make.session(), epoch=2))
    assert (event.number, event.epoch) == (3, 2)
    await second.close()


async def test_the_chain_covers_every_event(database: Database) -> None:
    await _write(database, *(make.batch(make.session(), make.session()) for _ in range(3)))
    await _write(database, make.batch(make.session(version=5)), make.batch(make.agent()))
    assert await database.read(verify) == 7


@pytest.mark.parametrize(
    ("tampering", "what"),
    [
        (update(EVENTS).where(EVENTS.c.number == 3).values(actor="mallory"), "event 3 was changed"),
        (update(EVENTS).where(EVENTS.c.number == 3).values(payload="{}"), "event 3 was changed"),
        (update(EVENTS).where(EVENTS.c.number == 3).values(hash=bytes(32)), "event 3 was changed"),
        (delete(EVENTS).where(EVENTS.c.number == 3), "event 3 is missing"),
        (delete(EVENTS).where(EVENTS.c.number == 6), "ends at event 5, and the counter says 6"),
    ],
)
async def test_the_hash_chain_reveals_tampering(database: Database, tampering: Any, what: str) -> None:
    await _write(database, make.batch(*(make.session() for _ in range(6))))

    def tamper(connection: Connection) -> None:
        with connection.begin():
            connection.execute(tampering)

    await database.write(tamper)
    with pytest.raises(ChainBroken, match=what):
        await database.read(verify)


STEPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.booleans()), max_size=12)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(groups=st.lists(STEPS, max_size=5))
async def test_replaying_the_event_log_gives_the_stored_state(
    database: Database, groups: list[list[tuple[int, int, bool]]]
) -> None:
    await database.write(_empty)
    newest: dict[int, Record] = {}
    for steps in groups:
        await _write(database, *(_step(newest, *step) for step in steps))
    log = await database.read(partial(events_after, number=0, limit=10_000))
    assert make.fold(log) == await database.read(_state)
    assert await database.read(verify) == len(log)


def _step(newest: dict[int, Record], row: int, skew: int, with_bystander: bool) -> Batch:
    """Move one of six rows to its next version, or to a wrong one that must be refused."""
    known = newest.get(row)
    version = (known.version if known else 0) + 1
    record = replace(make.session(id=f"ses_row{row}"), version=version + skew)
    if skew == 0:
        newest[row] = record
    return make.batch(record, make.session()) if with_bystander else make.batch(record)


async def _write(database: Database, *batches: Batch) -> None:
    if batches:
        await database.write(partial(commit_group, batches=batches))


def _empty(connection: Connection) -> None:
    with connection.begin():
        for table in (EVENTS, *(mapping.table for mapping in MAPPINGS.values())):
            connection.execute(delete(table))
        connection.execute(update(COUNTER).values(number=0, hash=CHAIN_START))


def _state(connection: Connection) -> dict[str, Record]:
    return {
        f"{mapping.entity}/{row.id}": mapping.from_row(row)
        for mapping in MAPPINGS.values()
        for row in connection.execute(select(mapping.table))
    }


async def test_the_newest_events_of_a_session_are_listed_by_kind_in_pages(store: Store) -> None:
    one, other = make.session(), make.session()
    await store.commit(make.batch(one, other))
    for version in range(2, 8):
        await store.commit(make.batch(replace(one, version=version), replace(other, version=version)))
    (made, *_), kinds = await store.events_of(one.id, after=0, limit=1), ("session.changed",)
    assert await store.session_steps(one.id, kinds=(made.kind,), before=None, limit=9)
    newest = await store.session_steps(one.id, kinds=(made.kind, *kinds), before=None, limit=3)
    assert [event.entity_version for event in newest] == [5, 6, 7]
    older = await store.session_steps(one.id, kinds=(made.kind,), before=newest[0].number, limit=9)
    assert [(event.entity_id, event.entity_version) for event in older] == [
        (one.id, version) for version in range(1, 5)
    ]
    assert await store.session_steps(one.id, kinds=kinds, before=None, limit=9) == ()
