"""Holdings read for history: by time in pages, and by session."""

from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, event

from aliquot.service.history.ports import HeldAmount
from aliquot.service.ports import Batch, RowWrite
from aliquot.store.audit import holdings
from aliquot.store.store import DatabaseStore
from aliquot.store.timeseries import held_gpus as reading
from aliquot.store.timeseries.held_gpus import DatabaseHoldings
from aliquot_schema.ids import ProjectId, UserId
from aliquot_schema.resources.leases import EndEvidence, Lease
from aliquot_schema.sessions import PreemptionCause, PreemptionReceipt, Session
from store_places import Place
from store_records import kernel, lease, session

pytestmark = pytest.mark.anyio


async def grant(store: DatabaseStore, of: Session, *, from_us: int, ended_us: int | None) -> Lease:
    """One lease, released unless it is held."""
    one = kernel(of, granted_us=from_us)
    spec = {"cuda.shares": {"GPU-1": 500}, "mem": {"mem0": 2**30}}
    granted = lease(one, granted_us=from_us, spec=spec)
    writes = [RowWrite(record=of, kind="session.queued"), RowWrite(record=granted, kind="lease.granted")]
    if ended_us is not None:
        ended = replace(granted, version=2, released_us=ended_us, evidence=EndEvidence.EXIT_FILE)
        writes.append(RowWrite(record=ended, kind="lease.released"))
    await store.commit(Batch(writes=tuple(writes), at_us=from_us, actor="system:test"))
    return granted


async def between(store: DatabaseStore, since_us: int, until_us: int) -> list[HeldAmount]:
    return [one async for page in DatabaseHoldings(store).between(since_us, until_us) for one in page]


async def test_the_holdings_of_a_period_are_found(store: DatabaseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PAGE", 2)
    for number in range(5):
        of = session(project=ProjectId(f"p{number}"))
        await grant(store, of, from_us=100 * number, ended_us=100 * number + 50)
    await grant(store, session(project=ProjectId("open")), from_us=120, ended_us=None)
    found = await between(store, 150, 320)
    assert sorted((one.project, one.from_us, one.ended_us) for one in found) == [
        ("open", 120, 320),
        ("p2", 200, 250),
        ("p3", 300, 350),
    ]
    assert {(one.slot, one.amount, one.device_id) for one in found} == {("cuda.shares", 500, "GPU-1")}
    assert await between(store, 0, 100) == [replace(found[0], project="p0", from_us=0, ended_us=50)]
    assert len(await between(store, 0, 1000)) == 6


async def test_a_lease_released_during_the_read_is_counted_once(store: DatabaseStore) -> None:
    granted = await grant(store, session(), from_us=10, ended_us=None)
    pages = DatabaseHoldings(store).between(0, 100)
    first = await anext(pages)
    ended = replace(granted, version=2, released_us=90, evidence=EndEvidence.EXIT_FILE)
    write = RowWrite(record=ended, kind="lease.released")
    await store.commit(Batch(writes=(write,), at_us=90, actor="system:test"))
    assert await between(store, 0, 100) == [replace(first[0], ended_us=90)]  # it is in the record
    assert [(one.from_us, one.ended_us) for page in [first, *[page async for page in pages]] for one in page] == [
        (10, 100)
    ]


async def test_a_preemption_is_recorded_without_a_read_of_all_holdings(sqlite_place: Place) -> None:
    database, asked = sqlite_place.database(), list[tuple[str, Any]]()
    await database.open()

    def plans(connection: Connection) -> list[str]:
        event.listen(
            connection, "before_cursor_execute", lambda _c, _cursor, sql, values, *_: asked.append((sql, values))
        )
        with connection.begin():
            holdings._project_preemption(connection, preempted, pass_number=7)
        explained = (connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values) for sql, values in asked[:1])
        return [row.detail for rows in explained for row in rows]

    receipt = PreemptionReceipt(
        cause=PreemptionCause.PRIORITY, by_session=None, by_user=UserId("ann"), at_us=5, until_us=9
    )
    preempted = session(preemption=receipt)
    assert [plan.split(" USING")[0] for plan in await database.write(plans)] == ["SEARCH holdings"]
    await database.close()


async def test_all_holdings_of_a_session_are_found(store: DatabaseStore) -> None:
    first, second = session(), session()
    await grant(store, first, from_us=10, ended_us=20)
    await grant(store, replace(second, id=f"{first.id}_1"), from_us=30, ended_us=40)  # a task of the array of that name
    again = kernel(first, granted_us=50)
    again = replace(again, id=f"{first.id}.2.0", attempt=2)
    write = RowWrite(record=lease(again, granted_us=50), kind="lease.granted")
    await store.commit(Batch(writes=(write,), at_us=50, actor="system:test"))
    found = await DatabaseHoldings(store).of_session(first.id, 90)
    assert [(one.from_us, one.ended_us) for one in found] == [(10, 20), (50, 90)]
    assert await DatabaseHoldings(store).of_session(second.id, 90) == ()


async def test_the_times_in_which_a_session_without_gpus_held_devices_are_found(store: DatabaseStore) -> None:
    one = session()
    held = lease(kernel(one, granted_us=10), granted_us=10, spec={"cpu": {"cpu0": 1}, "mem": {"mem0": 2**30}})
    writes = (RowWrite(record=one, kind="session.queued"), RowWrite(record=held, kind="lease.granted"))
    await store.commit(Batch(writes=writes, at_us=10, actor="system:test"))
    assert await DatabaseHoldings(store).of_session(one.id, 90) == ()
    assert await DatabaseHoldings(store).spans_of_session(one.id, 90) == ((10, 90),)
