"""An installation moves between databases with nothing lost, or does not move at all."""

import asyncio
import gzip
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select, text

import store_records as make
from aliquot.service.ports import StoreUnavailable
from aliquot.store.export import ALL_TABLES, export, import_archive
from aliquot.store.hash_chain import ChainBroken
from aliquot.store.integrity import checked
from aliquot.store.store import Database
from ledger_workload import workload_on
from lone_service import load_state
from store_places import Place

pytestmark = pytest.mark.anyio


def rows(connection: Connection) -> dict[str, list[tuple[Any, ...]]]:
    """All rows."""
    return {
        table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key.columns))]
        for table in ALL_TABLES.sorted_tables
    }


TABLES = """
import json, gzip, sys
from pathlib import Path
from aliquot.store.export import export
from aliquot.store.engines.sqlite import connect_reader
with connect_reader(Path(sys.argv[1])) as connection, connection.begin():
    export(connection, path=Path(sys.argv[2]))
print(json.dumps(sorted(json.loads(gzip.open(sys.argv[2]).readline())["tables"])))
"""


async def test_an_export_in_a_fresh_process_contains_every_table(sqlite_place: Place, tmp_path: Path) -> None:
    """Tables are declared by the modules that use them; one without an importer would be left out."""
    store = sqlite_place.store()
    await store.open()
    await store.close()
    with closing(sqlite3.connect(sqlite_place.sqlite_file)) as connection:
        made = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    command = [sys.executable, "-c", TABLES, str(sqlite_place.sqlite_file), str(tmp_path / "archive")]
    printed = await asyncio.to_thread(subprocess.check_output, command, timeout=120)
    assert set(json.loads(printed)) == made - {"alembic_version"}


async def exported(place: Place, path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Export a database; its rows."""
    database = place.database()
    await database.open()
    try:
        await database.read(lambda connection: export(connection, path=path))
        return await database.read(rows)
    finally:
        await database.close()


@pytest.mark.parametrize("direction", ["to postgres", "to sqlite"])
async def test_a_running_installation_is_moved_to_another_database(
    sqlite_place: Place, postgres_place: Place, direction: str
) -> None:
    places = (sqlite_place, postgres_place) if direction == "to postgres" else (postgres_place, sqlite_place)
    source, target = places
    archive = sqlite_place.folder / "archive"
    async with workload_on(source) as (course, running):
        await course.run_until_entries(running.ledger, 40)
    before = await exported(source, archive)
    database = target.database()
    await database.open()
    found = await database.write(lambda connection: import_archive(connection, path=archive))
    assert (found.events, found.passes) == (len(before["events"]), len(before["passes"]))
    assert await database.read(rows) == before
    assert (await database.read(checked)).faults == []
    await database.close()
    async with workload_on(target, seed=2) as (workload, running):
        held = len(await running.ledger.last(1000))
        await workload.run_until_entries(running.ledger, held + 10)
    state, _ = await load_state(store := target.store())
    assert state.revision > len(before["events"])
    await store.close()


async def test_an_import_into_a_non_empty_database_is_refused_and_changes_nothing(
    sqlite_place: Place, store: Any, place: Place
) -> None:
    await store.commit(make.batch(make.session()))
    await store.close()
    archive = sqlite_place.folder / "archive"
    before = await exported(place, archive)
    database = place.database()
    await database.open()
    with pytest.raises(StoreUnavailable, match=r"is not empty: .* has 1 rows"):
        await database.write(lambda connection: import_archive(connection, path=archive))
    assert await database.read(rows) == before
    await database.close()


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda lines: lines[:-1], "is truncated"),
        (lambda lines: lines[:-2] + lines[-1:], "was changed after it was written"),
        (lambda lines: [line.replace(b'"alice"', b'"mallory"') for line in lines], "was changed after it was written"),
        (lambda lines: [lines[0].replace(b'"revision":"', b'"revision":"x'), *lines[1:]], "the archive has schema x"),
        (lambda lines: [b"{}\n"], "not an archive that this version"),
    ],
)
async def test_a_harmed_archive_is_refused_and_nothing_of_it_stays(
    sqlite_place: Place, database: Database, harm: Any, words: str, tmp_path: Path
) -> None:
    source = replace(sqlite_place, folder=tmp_path / "source")
    store = source.store()
    await store.open()
    await store.commit(make.batch(make.session(), make.agent()))
    await store.close()
    archive = tmp_path / "archive"
    await exported(source, archive)
    archive.write_bytes(gzip.compress(b"".join(harm(gzip.decompress(archive.read_bytes()).splitlines(keepends=True)))))
    before = await database.read(rows)
    with pytest.raises(StoreUnavailable, match=words):
        await database.write(lambda connection: import_archive(connection, path=archive))
    assert await database.read(rows) == before


async def test_a_broken_chain_is_not_imported(sqlite_place: Place, tmp_path: Path) -> None:
    source = replace(sqlite_place, folder=tmp_path / "source")
    store = source.store()
    await store.open()
    await store.commit(make.batch(make.session()))
    await store.write(lambda connection: _run(connection, "UPDATE events SET actor = 'mallory'"))
    await store.close()
    await exported(source, tmp_path / "archive")
    database = sqlite_place.database()
    await database.open()
    with pytest.raises(ChainBroken):
        await database.write(lambda connection: import_archive(connection, path=tmp_path / "archive"))
    await database.close()


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE sessions SET owner = 'mallory'", "differs from its newest event"),
        ("UPDATE sessions SET version = 7", "has version 7, and no event recorded that version"),
        ("DELETE FROM sessions", "has events and no row"),
        ("UPDATE events SET actor = 'mallory'", "event 1 was changed"),
    ],
)
async def test_a_check_reports_inconsistent_rows(store: Any, statement: str, words: str) -> None:
    await store.commit(make.batch(make.session(), make.agent()))
    assert (await store.read(checked)).faults == []
    await store.write(lambda connection: _run(connection, statement))
    found = (await store.read(checked)).faults
    assert len(found) == 1
    assert words in found[0]


def _run(connection: Connection, statement: str) -> None:
    with connection.begin():
        connection.execute(text(statement))
