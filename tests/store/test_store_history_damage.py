"""Damaged or unwritable history affects history alone: it is reported, and resumes when possible."""

import asyncio
import logging
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest
from sqlalchemy import Connection

from aliquot.service.history.grids import covering
from aliquot.service.history.measures import MeasureKind
from aliquot.service.history.ports import HistoryUnavailable
from aliquot.store.engines.sqlite import connect_writer
from aliquot.store.timeseries import history_store
from aliquot.store.timeseries.history_store import FILE, HistoryDatabase
from history_stores import AGENT, SECOND, T0, HistoryStage, fill, roster
from store_places import Place

pytestmark = pytest.mark.anyio
GRID = covering(T0, T0 + 900 * SECOND, step_s=300)
CRASH = """
import asyncio, os, sqlite3, sys
from contextlib import closing
from pathlib import Path
from history_stores import SECOND, T0, HistoryStage, fill, roster
from aliquot.service.history.grids import covering
from aliquot.service.history.measures import MeasureKind
from aliquot.store.timeseries.history_store import FILE
from store_places import Place

async def blocks(stage):
    try:
        with closing(sqlite3.connect(stage.place.folder / FILE)) as file:
            return file.execute("SELECT count(*) FROM history_blocks").fetchone()[0]
    except sqlite3.OperationalError:
        return 0

async def main():
    stage = HistoryStage(Place("", Path(sys.argv[1])))
    async with stage.store() as store:
        fill(store, roster(), load=lambda _: 50.0, first_us=T0, last_us=T0 + 700 * SECOND)
        await store.gathered(MeasureKind.QUEUE, "", covering(T0, T0 + 1, step_s=1))  # all of it is taken in
        while await blocks(stage) < 2:
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), 9)

asyncio.run(main())
"""


@pytest.fixture
def history(sqlite_place: Place) -> HistoryStage:
    return HistoryStage(sqlite_place)


async def loads(store: HistoryDatabase) -> list[float]:
    found = (await store.gathered(MeasureKind.DEVICES, AGENT, GRID)).get(f"{AGENT}-0")
    return [] if found is None else [float(number) for number in found.mean[0]]


async def written(history: HistoryStage) -> None:
    """Three blocks."""
    async with history.store() as store:
        fill(store, roster(), load=lambda _: 50.0, first_us=T0, last_us=T0 + 900 * SECOND)
        await store.flush()
        assert await loads(store) == [50.0] * 3


async def test_a_damaged_history_block_is_skipped_and_logged(
    history: HistoryStage, caplog: pytest.LogCaptureFixture
) -> None:
    await written(history)
    with closing(sqlite3.connect(history.place.folder / FILE)) as found, found:
        second = T0 + 300 * SECOND
        changed = found.execute("UPDATE history_blocks SET body = substr(body, 1, 40) WHERE start_us = ?", (second,))
        assert changed.rowcount == 1
    async with history.store() as store:
        for _ in range(2):
            first, middle, last = await loads(store)
            assert (first, last) == (50.0, 50.0)
            assert middle != middle  # empty
        assert "damaged" in (store.fault or "")
        history.clock.now = T0 + 4 * 3600 * SECOND
        assert (await store.maintain()).written == 1  # readable blocks are summed up
        history.clock.now = T0 + 25 * 3600 * SECOND
        assert store.fault is None
    told = [record for record in caplog.records if record.name == "aliquot.history" and "damaged" in record.message]
    assert len(told) == 1


async def test_a_damaged_file_is_put_aside_and_another_begun(history: HistoryStage) -> None:
    await written(history)
    path = history.place.folder / FILE
    path.write_bytes(b"this is no database" * 1000)
    async with history.store() as store:
        with pytest.raises(HistoryUnavailable):
            await loads(store)
        fill(store, roster(), load=lambda _: 20.0, first_us=T0, last_us=T0 + 900 * SECOND)
        assert await loads(store) == [20.0] * 3
        await store.flush()
        assert store.fault is None
    aside = [found.name for found in path.parent.iterdir() if found.name.endswith(".damaged")]
    assert len(aside) == 1
    assert (path.parent / aside[0]).read_bytes().startswith(b"this is no database")


async def test_only_the_newest_damaged_file_is_kept(history: HistoryStage) -> None:
    path = history.place.folder / FILE
    for number in range(3):
        history.clock.now += number
        await written(history)
        path.write_bytes(b"%d is no database" % number * 1000)
        async with history.store() as store:
            with pytest.raises(HistoryUnavailable):
                await loads(store)
    (aside,) = (found for found in path.parent.iterdir() if found.name.endswith(".damaged"))
    assert aside.read_bytes().startswith(b"2 is")


async def test_unwritable_history_is_logged_once_and_buffered_until_it_can_be_written(
    history: HistoryStage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "aliquot.history")
    path = history.place.folder / FILE
    path.mkdir(parents=True)  # a folder in place of the file
    async with history.store() as store:
        fill(store, roster(), load=lambda _: 30.0, first_us=T0, last_us=T0 + 900 * SECOND)
        for _ in range(3):
            with pytest.raises(HistoryUnavailable):
                await store.flush()
        assert store.fault is not None
        assert [record.name for record in caplog.records] == ["aliquot.history"]
        path.rmdir()
        await store.flush()
        assert store.fault is None
        assert await loads(store) == [30.0] * 3


def connect_full(path: Path) -> Connection:
    """The file cannot grow, as on a full disk."""
    connection = connect_writer(path)
    driver = connection.connection.driver_connection
    assert driver is not None
    driver.execute("PRAGMA max_page_count = 1")  # no less than it has
    return connection


async def test_a_write_fault_is_reported_while_history_can_still_be_read(
    history: HistoryStage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING, "aliquot.history")
    await written(history)
    later = covering(T0 + 900 * SECOND, T0 + 5400 * SECOND, step_s=900)
    with monkeypatch.context() as patch:
        patch.setattr(history_store, "connect_writer", connect_full)
        async with history.store() as store:
            fill(store, roster(devices=64), load=lambda _: 70.0, first_us=T0 + 900 * SECOND, last_us=T0 + 5400 * SECOND)
            for _ in range(3):
                with pytest.raises(HistoryUnavailable):
                    await store.flush()
                assert await loads(store) == [50.0] * 3
                assert "full" in (store.fault or "")
            assert len(caplog.records) == 1
            patch.undo()
            with suppress(HistoryUnavailable):
                await store.flush()  # by the connection that may still be open
            await store.flush()
            assert store.fault is None
            found = await store.gathered(MeasureKind.DEVICES, AGENT, later)
            assert list(found[f"{AGENT}-0"].mean[0]) == [70.0] * 5


async def test_sql_statements_appear_in_the_log_and_not_in_error_messages(
    history: HistoryStage, caplog: pytest.LogCaptureFixture
) -> None:
    path = history.place.folder / FILE
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as found:
        found.execute("CREATE TABLE history_series (id INTEGER)")  # of another kind
    async with history.store() as store:
        with pytest.raises(HistoryUnavailable, match="see the log of the server") as refused:
            await loads(store)
        assert "history_series" not in refused.value.message
    assert "no such column: history_series" in (caplog.records[0].exc_text or caplog.text)


async def test_buffered_history_is_included_in_summaries(
    history: HistoryStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    half, wide = T0 + 1800 * SECOND, roster(devices=64)
    async with history.store() as store:
        fill(store, wide, load=lambda _: 20.0, first_us=T0, last_us=half)
    with monkeypatch.context() as patch:
        patch.setattr(history_store, "connect_writer", connect_full)
        async with history.store() as store:
            fill(store, wide, load=lambda _: 60.0, first_us=half, last_us=T0 + 3600 * SECOND)
            with pytest.raises(HistoryUnavailable):
                await store.flush()
            patch.undo()
            history.clock.now = T0 + 7200 * SECOND
            assert (await store.maintain()).written == 1
            await store.flush()
            found = await store.gathered(MeasureKind.DEVICES, AGENT, covering(T0, T0 + 3600 * SECOND, step_s=3600))
            assert list(found[f"{AGENT}-0"].mean[0]) == [40.0]


async def test_a_deleted_history_file_is_created_again(history: HistoryStage) -> None:
    path = history.place.folder / FILE
    async with history.store() as store:
        fill(store, roster(), load=lambda _: 50.0, first_us=T0, last_us=T0 + 300 * SECOND)
        await store.flush()
        path.unlink()
        fill(store, roster(), load=lambda _: 20.0, first_us=T0 + 300 * SECOND, last_us=T0 + 600 * SECOND)
        with pytest.raises(HistoryUnavailable, match="was deleted"):
            await store.flush()
        await store.flush()
        assert store.fault is None
    async with history.store() as store:
        first, second, _ = await loads(store)
        assert first != first  # deleted
        assert second == 20.0


async def test_a_process_killed_during_a_write_keeps_complete_history_blocks(history: HistoryStage) -> None:
    support = Path(__file__).parents[1] / "support"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(support), *sys.path])}
    command = [sys.executable, "-c", CRASH, str(history.place.folder)]
    killed = await asyncio.to_thread(subprocess.run, command, env=environment, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    async with history.store() as store:
        first, second, third = await loads(store)
        assert (first, second) == (50.0, 50.0)
        assert third != third  # the unfinished window
