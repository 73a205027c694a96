"""Retention of closed findings, alerts, notices, and leases without a kernel."""

import asyncio
import errno
import os
import stat
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Column, Connection, Table, Text, insert, select

from aliquot.service.ports import NotLeader
from aliquot.service.retention import CLOSED, DAY_US, Periods, RemovedRows, RetainedKind, RetentionLoop
from aliquot.service.state.state import State
from aliquot.store.alert_tables import ALERTS, DELIVERIES
from aliquot.store.archive import folder
from aliquot.store.archive.archiver import DatabaseHistory
from aliquot.store.archive.folder import ArchiveFile, ArchiveFolder
from aliquot.store.archive.sealing import ArchiveBatch, EventRange
from aliquot.store.archive.verification import all_seals, verify_archives
from aliquot.store.audit.holdings import HOLDINGS
from aliquot.store.store import DatabaseStore
from aliquot.store.tables import FINDINGS, LEASES
from ledger_workload import LeapingClock
from store_places import Place

pytestmark = pytest.mark.anyio

YEAR = Periods(sessions_us=365 * DAY_US, events_us=None, ledger_us=None, findings_us=90 * DAY_US)
TABLES = {
    RetainedKind.FINDINGS: FINDINGS,
    RetainedKind.ALERTS: ALERTS,
    RetainedKind.DELIVERIES: DELIVERIES,
    RetainedKind.LEASES: LEASES,
}
ENDS = {
    RetainedKind.FINDINGS: "closed_us",
    RetainedKind.ALERTS: "closed_us",
    RetainedKind.DELIVERIES: "ended_us",
    RetainedKind.LEASES: "released_us",
}


async def test_a_manifest_that_cannot_be_written_leaves_no_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next attempt writes all files again: on a full disk, each would take more of it."""
    ranges = (EventRange(id=f"{kind}-1", kind=kind, first=1, last=2, rows=0) for kind in ("sessions", "kernels"))
    segments = {one.kind: (one, [Column("id", Text)]) for one in ranges}
    publish = folder._publish

    def full(partial: Path, path: Path) -> None:
        if path.match("kernels-*.json"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        publish(partial, path)

    monkeypatch.setattr(folder, "_publish", full)
    async with ArchiveBatch(ArchiveFolder(tmp_path), segments) as batch:
        for kind in segments:
            await batch.put(kind, [("ses_1",)])
        with pytest.raises(OSError, match="No space left"):
            await batch.finish(at_us=1)
    assert os.listdir(tmp_path) == []


@pytest.fixture
async def store(place: Place) -> AsyncIterator[DatabaseStore]:
    opened = place.store()
    await opened.open()
    assert isinstance(opened, DatabaseStore)
    yield opened
    await opened.close()


def row_of(table: Table, **values: object) -> dict[str, object]:
    """A row with only these values."""
    plain = {column.name: 0 if column.type.python_type is not str else "" for column in table.c}
    empty = {column.name: None for column in table.c if column.nullable}
    return {**plain, **empty, **values}


def put(connection: Connection, *, now_us: int) -> None:
    """For each kind one record closed long ago, one closed yesterday, and one that is open."""
    with connection.begin():
        for kind, table in TABLES.items():
            for name, ended_us in (("old", now_us - 400 * DAY_US), ("young", now_us - DAY_US), ("open", None)):
                connection.execute(
                    insert(table), row_of(table, id=f"{kind}-{name}", version=2, **{ENDS[kind]: ended_us})
                )
        of_kernel = {"kernel_id": "ses_1.1.0", "released_us": now_us - 400 * DAY_US}
        connection.execute(insert(LEASES), row_of(LEASES, id="ses_1.1.0", version=2, **of_kernel))
        for lease in ("leases-old", "leases-young"):
            connection.execute(insert(HOLDINGS), row_of(HOLDINGS, lease_id=lease, device_id="gpu", slot="cuda.device"))


def ids(connection: Connection) -> set[str]:
    held = set(connection.execute(select(HOLDINGS.c.lease_id)).scalars())
    return {f"held {name}" for name in held}.union(
        *(connection.execute(select(table.c.id)).scalars() for table in TABLES.values())
    )


def history_of(store: DatabaseStore, folder: Path, *, epoch: int | None = None) -> DatabaseHistory:
    return DatabaseHistory(store, folder=ArchiveFolder(folder), epoch=epoch, now_us=LeapingClock().now_us)


async def test_closed_records_are_archived_and_removed_after_their_retention_period(
    store: DatabaseStore, tmp_path: Path
) -> None:
    clock = LeapingClock()
    await store.write(lambda connection: put(connection, now_us=clock.now_us()))
    before = await store.read(ids)
    retaining = RetentionLoop(history_of(store, tmp_path), memory=State(), clock=clock, periods=YEAR)
    assert await retaining.run_once() == RemovedRows(passes=0, events=0, sessions=0, closed=4)
    assert before - await store.read(ids) == {f"{kind}-old" for kind in CLOSED} | {"held leases-old"}
    told = verify_archives(await store.read(all_seals), folder=tmp_path)
    assert (told.faults, told.files, told.rows) == ((), 5, 5)
    assert await retaining.run_once() == RemovedRows(passes=0, events=0, sessions=0)


async def test_closed_records_without_a_retention_period_are_kept(store: DatabaseStore, tmp_path: Path) -> None:
    clock = LeapingClock()
    await store.write(lambda connection: put(connection, now_us=clock.now_us()))
    nothing = Periods(sessions_us=None, events_us=None, ledger_us=None, findings_us=None)
    retaining = RetentionLoop(history_of(store, tmp_path), memory=State(), clock=clock, periods=nothing)
    assert await retaining.run_once() == RemovedRows(passes=0, events=0, sessions=0)


async def test_a_record_that_changed_meanwhile_is_not_removed(store: DatabaseStore, tmp_path: Path) -> None:
    clock = LeapingClock()
    await store.write(lambda connection: put(connection, now_us=clock.now_us()))
    history = history_of(store, tmp_path)
    assert await history.remove_closed(RetainedKind.FINDINGS, {"findings-old": 1}) == 0
    assert await history.remove_closed(RetainedKind.FINDINGS, {"findings-old": 2}) == 1


async def test_two_leaders_that_write_the_same_archive_do_not_damage_it(store: DatabaseStore, tmp_path: Path) -> None:
    """The old leader ends with nothing, and the new one's sealed archive is unchanged."""
    clock = LeapingClock()
    await store.write(lambda connection: put(connection, now_us=clock.now_us()))
    present = (await store.present_term()).epoch
    for epoch in (present, present - 1):
        retaining = RetentionLoop(history_of(store, tmp_path, epoch=epoch), memory=State(), clock=clock, periods=YEAR)
        if epoch == present:
            assert (await retaining.run_once()).closed == 4
            files = sorted(os.listdir(tmp_path))
            await store.write(lambda connection: put_again(connection, now_us=clock.now_us()))
        else:
            with pytest.raises(NotLeader):
                await retaining.run_once()
    assert sorted(os.listdir(tmp_path)) == files
    assert verify_archives(await store.read(all_seals), folder=tmp_path).faults == ()


def put_again(connection: Connection, *, now_us: int) -> None:
    with connection.begin():
        row = row_of(FINDINGS, id="findings-later", version=2, closed_us=now_us - 200 * DAY_US)
        connection.execute(insert(FINDINGS), row)


async def test_an_archive_file_that_cannot_be_made_durable_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has its name already when its folder is flushed."""
    file = ArchiveFolder(tmp_path).begin("findings-000001", tuple(FINDINGS.c))
    file.put([tuple(row_of(FINDINGS, id="one", version=1).values())])
    fsync = os.fsync

    def failing(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match="Input/output error"):
        file.finish()
    file.discard()
    assert os.listdir(tmp_path) == []


async def test_an_archive_file_discarded_during_its_write_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task that awaits the thread is canceled; the thread goes on."""
    writing, goes_on = threading.Event(), threading.Event()
    write = ArchiveFile._write

    def slow(file: ArchiveFile) -> None:
        writing.set()
        assert goes_on.wait(60)
        write(file)

    monkeypatch.setattr(ArchiveFile, "_write", slow)
    monkeypatch.setattr("aliquot.store.archive.folder._GROUP_ROWS", 1)
    file = ArchiveFolder(tmp_path).begin("findings-000001", tuple(FINDINGS.c))
    row = row_of(FINDINGS, id="one", version=1)
    put_rows = asyncio.create_task(asyncio.to_thread(file.put, [tuple(row.values())]))
    assert await asyncio.to_thread(writing.wait, 60)
    put_rows.cancel()
    discarding = asyncio.create_task(asyncio.to_thread(file.discard))
    goes_on.set()
    await discarding
    assert os.listdir(tmp_path) == []
