"""What a server loads when it starts."""

import re
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, event

import store_records as make
from aliquot.service.ports import LoadedRows, Store
from aliquot.store.loading import load
from aliquot_schema.cluster.agents import KnownSlot
from aliquot_schema.events import Record
from aliquot_schema.ids import LeaseId, SlotName
from aliquot_schema.resources.leases import LeaseKind
from aliquot_schema.resources.slots import SlotType
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState
from store_places import Place

pytestmark = pytest.mark.anyio


async def test_live_rows_and_the_newest_ended_sessions_are_loaded(place: Place) -> None:
    ended = [_ended(number) for number in range(5)]
    queued, running = make.session(), make.session(state=SessionState.RUNNING, attempt=2)
    older = make.kernel(replace(running, attempt=1))
    present = make.kernel(running)
    slot = KnownSlot(id=SlotName("cuda.shares"), version=1, type=SlotType.COUNT, first_seen_us=1)
    released = make.lease(older, released_us=9)
    held = make.lease(present)
    await _write(place, *ended, queued, running, older, present, released, held, make.agent(), slot)

    loaded = await _load(place, ended_limit=2)
    assert set(_ids(loaded)) == {*_ids_of(ended[3], ended[4], queued, running, present, held, make.agent(), slot)}
    assert all(record in loaded.records for record in (ended[4], queued, running, present))
    assert not loaded.ended_complete
    assert loaded.revision == 13


async def test_an_ended_session_that_holds_devices_is_loaded(place: Place) -> None:
    canceled = [make.session(state=SessionState.CANCELED, attempt=1, ended_us=number) for number in (1, 2)]
    kernels = [make.kernel(session) for session in canceled]
    leases = [make.lease(kernels[0]), make.lease(kernels[1], released_us=5)]
    await _write(place, *canceled, *kernels, *leases)
    loaded = await _load(place, ended_limit=0)
    assert set(_ids(loaded)) == {*_ids_of(canceled[0], kernels[0], leases[0])}


async def test_a_lease_without_a_session_is_loaded_until_it_is_released(place: Place) -> None:
    manual = replace(make.lease(make.kernel(make.session())), kind=LeaseKind.MANUAL, session_id=None, kernel_id=None)
    held = replace(manual, id=LeaseId("lea_1"))
    await _write(place, held, replace(manual, id=LeaseId("lea_2"), released_us=4))
    assert (await _load(place, ended_limit=10)).records == (held,)


@pytest.mark.parametrize(("ended_limit", "complete"), [(3, False), (4, True), (5, True)])
async def test_loading_reports_whether_all_ended_sessions_were_loaded(
    place: Place, ended_limit: int, complete: bool
) -> None:
    await _write(place, *(_ended(number) for number in range(4)), make.session())
    loaded = await _load(place, ended_limit=ended_limit)
    assert loaded.ended_complete is complete
    assert len(loaded.records) == min(ended_limit, 4) + 1


async def test_loading_at_startup_uses_indexes_only(sqlite_place: Place) -> None:
    database = sqlite_place.database()
    await database.open()
    plans = await database.read(_plans_of_loading)
    await database.close()
    assert len(plans) > 10
    whole_table = re.compile(r"SCAN (sessions|kernels|leases|events)\b(?! USING (COVERING )?INDEX ix_)")
    assert [plan for plan in plans if whole_table.search(plan)] == []
    after_ended = [after for plan, after in pairwise(plans) if "ix_sessions_ended" in plan]
    assert after_ended
    assert not any("ORDER BY" in plan for plan in after_ended), "the ended sessions are sorted"


def _plans_of_loading(connection: Connection) -> list[str]:
    """SQLite's query plans of a start."""
    asked: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        asked.append((statement, parameters))

    event.listen(connection, "before_cursor_execute", note)
    load(connection, epoch=1, ended_limit=5)
    event.remove(connection, "before_cursor_execute", note)
    explained = (connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values) for sql, values in asked)
    return [row.detail for rows in explained for row in rows]


def _ended(number: int) -> Session:
    return make.session(state=SessionState.COMPLETED, ended_us=100 + number)


async def _write(place: Place, *records: Record) -> None:
    store = place.store()
    await store.open()
    await store.commit(make.batch(*records))
    await store.close()


async def _load(place: Place, *, ended_limit: int) -> LoadedRows:
    store: Store = place.store(ended_limit=ended_limit)
    loaded = await store.open()
    await store.close()
    return loaded


def _ids(loaded: LoadedRows) -> list[tuple[str, str]]:
    return _ids_of(*loaded.records)


def _ids_of(*records: Record) -> list[tuple[str, str]]:
    return [(type(record).__name__, record.id) for record in records]
