"""The schema: migrations match the models, and a foreign database is left unchanged."""

import asyncio
import resource
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, make_url, text
from typer.testing import CliRunner

import aliquot.store.migrations
import store_records as make
from aliquot.cli import main
from aliquot.service.ports import StoreUnavailable
from aliquot.store import migration
from aliquot.store.engines.sqlite import back_up
from aliquot.store.export import ALL_TABLES
from aliquot.store.migration import HEAD, REVISIONS
from aliquot.store.replication.leadership import PostgresLeadershipLock
from aliquot.store.store import Database, DatabaseStore
from store_places import Place

pytestmark = pytest.mark.anyio


async def test_the_migrated_schema_is_the_models(database: Database) -> None:
    def differences(connection: Connection) -> list[Any]:
        return compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), ALL_TABLES)

    assert await database.read(differences) == []


async def test_a_difference_between_schema_and_models_is_detected(database: Database) -> None:
    def alter(connection: Connection) -> None:
        with connection.begin():
            connection.execute(text("DROP INDEX ix_sessions_owner"))
            connection.execute(text("ALTER TABLE agents ADD COLUMN extra TEXT"))

    def differences(connection: Connection) -> list[str]:
        return [change[0] for change in compare_metadata(MigrationContext.configure(connection), ALL_TABLES)]

    await database.write(alter)
    assert sorted(await database.read(differences)) == ["add_index", "remove_column"]


def test_the_list_of_revisions_matches_the_migration_scripts() -> None:
    config = Config()
    config.set_main_option("script_location", "aliquot.store:migrations")
    scripts = ScriptDirectory.from_config(config).walk_revisions()
    assert tuple(script.revision for script in scripts)[::-1] == REVISIONS


async def test_a_newer_schema_is_refused(place: Place) -> None:
    await _open_and_run(place, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreUnavailable, match="schema 9999, this version of Aliquot supports up to"):
        await place.store().open()
    await _run_below(place, f"UPDATE alembic_version SET version_num = '{HEAD}'")
    store = place.store()
    await store.open()
    await store.close()


async def test_a_schema_before_the_baseline_is_refused(place: Place) -> None:
    await _open_and_run(place, "UPDATE alembic_version SET version_num = '0016'")
    with pytest.raises(StoreUnavailable, match=f"schema 0016; this version of Aliquot upgrades schema {REVISIONS[0]}"):
        await place.store().open()


async def test_a_database_at_the_baseline_is_upgraded_with_its_rows(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    session = make.session()
    store = place.store()
    await store.open()
    await store.commit(make.batch(session))
    await store.close()
    with monkeypatch.context() as later:
        _add_revision(later, tmp_path / "migrations")
        store = place.store()
        loaded = await store.open()
        assert isinstance(store, DatabaseStore)
        assert await store.read(lambda found: found.execute(text("SELECT extra FROM slots")).all()) == []
        await store.close()
    assert session in loaded.records
    copies = list(place.folder.rglob(f"*.{HEAD}.*.backup"))
    assert len(copies) == (0 if place.url else 1)


async def test_a_database_in_use_by_servers_of_an_older_release_is_not_upgraded(
    postgres_place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither beside a leader nor beside a follower, whose session is named by its address."""
    url, held = make_url(postgres_place.url), []
    store = postgres_place.store()
    await store.open()
    await store.close()
    for address in ("http://gpu01:8090", "http://gpu02:8090", "http://" + 80 * "x"):
        held.append(PostgresLeadershipLock(url, address=address))
    assert [await lock.take() for lock in held[:2]] == [True, False]
    _add_revision(monkeypatch, tmp_path / "migrations")
    refused = r"servers of the older release run on this database, which has schema \d+: "
    for left in ("http://gpu01:8090, http://gpu02:8090", "http://gpu02:8090"):
        with pytest.raises(StoreUnavailable, match=f"{refused}{left}. Stop them"):
            await postgres_place.store().open()
        await held.pop(0).leave()
    assert await held[0].take()
    with pytest.raises(StoreUnavailable, match=f"{refused}a server without a short address"):
        await postgres_place.store().open()
    await held[0].leave()
    store = postgres_place.store()
    await store.open()
    await store.close()


@pytest.mark.parametrize("words", [["archive"], ["rotate-secrets"], ["forget-secrets", "--yes"]])
async def test_db_commands_refuse_to_change_the_database_of_a_running_server(
    postgres_place: Place, words: list[str]
) -> None:
    """It caches ended sessions and secrets in memory: retrying a removed session would never end."""
    store = postgres_place.store()
    await store.open()
    await store.close()
    lock = PostgresLeadershipLock(make_url(postgres_place.url), address="http://gpu01:8090")
    assert await lock.take()
    command = ["db", *words, "--database", postgres_place.url, "--data-folder", str(postgres_place.folder)]
    refused = await asyncio.to_thread(CliRunner().invoke, main, command)
    assert refused.exit_code == 2
    assert "servers run on this database: http://gpu01:8090. Stop them first" in refused.output
    await lock.leave()
    done = await asyncio.to_thread(CliRunner().invoke, main, command)
    assert "servers run on" not in done.output


async def test_a_server_does_not_lead_once_a_newer_release_has_upgraded_its_database(postgres_place: Place) -> None:
    store = postgres_place.store()
    await store.open()
    assert isinstance(store, DatabaseStore)
    began = await store.begin_term()
    await _run_below(postgres_place, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreUnavailable, match="schema 9999 now, and this server of an older release"):
        await store.begin_term()
    await _run_below(postgres_place, f"UPDATE alembic_version SET version_num = '{HEAD}'")
    assert (await store.begin_term()).epoch == began.epoch + 1
    await store.close()


def _add_revision(monkeypatch: pytest.MonkeyPatch, scripts: Path) -> None:
    """A version with one more revision than this one."""
    (here,) = aliquot.store.migrations.__path__
    shutil.copytree(here, scripts)
    lines = ["import sqlalchemy", "from alembic import op", "revision = '9999'", f"down_revision = '{HEAD}'"]
    lines.append("def upgrade(): op.add_column('slots', sqlalchemy.Column('extra', sqlalchemy.Text))")
    (scripts / "versions" / "r9999_later.py").write_text("\n".join(lines))
    monkeypatch.setattr(migration, "SCRIPTS", str(scripts))
    monkeypatch.setattr(migration, "REVISIONS", (*REVISIONS, "9999"))
    for module in ("migration", "engines.sqlite"):
        monkeypatch.setattr(f"aliquot.store.{module}.HEAD", "9999")


async def test_the_tables_of_another_program_are_left_alone(place: Place) -> None:
    await _open_and_run(place, "DROP TABLE alembic_version")
    with pytest.raises(StoreUnavailable, match="another program"):
        await place.store().open()


def test_the_second_start_does_not_import_alembic(sqlite_place: Place) -> None:
    program = (
        "import asyncio, sys; from pathlib import Path; from aliquot.store.open import open_store\n"
        "async def main():\n"
        "    store = open_store('', data_folder=Path(sys.argv[1]), now_us=lambda: 1)\n"
        "    await store.open(); await store.close()\n"
        "asyncio.run(main())\n"
        "print([name for name in ('alembic', 'asyncpg', 'sqlalchemy.dialects.postgresql') if name in sys.modules])"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", program, sqlite_place.folder], check=True, capture_output=True, text=True, timeout=60
        ).stdout.strip()
        for _ in range(2)
    ]
    assert printed == ["['alembic', 'sqlalchemy.dialects.postgresql']", "[]"]


async def test_a_backup_can_be_opened_as_a_database(sqlite_place: Place) -> None:
    store = sqlite_place.store()
    await store.open()
    await store.commit(make.batch(make.session()))
    await store.close()
    copy = sqlite_place.folder / "copy.db"
    database = sqlite_place.database()
    await database.open()
    await database.write(lambda connection: back_up(connection, copy))
    await database.close()
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (1,)


async def test_a_backup_that_fails_leaves_no_file(sqlite_place: Place) -> None:
    copy = sqlite_place.folder / "copy.db"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fail(connection: Connection) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, limits[1]))
        try:
            back_up(connection, copy)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    database = sqlite_place.database()
    await database.open()
    with pytest.raises(sqlite3.OperationalError):
        await database.write(fail)
    await database.close()
    assert not copy.exists()


async def test_an_older_schema_is_copied_before_it_is_changed(
    sqlite_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = sqlite_place.store()
    await store.open()
    await store.close()
    for module in ("migration", "engines.sqlite"):
        monkeypatch.setattr(f"aliquot.store.{module}.HEAD", "9999")
    with pytest.raises(Exception, match="9999"):
        await sqlite_place.store().open()
    (copy,) = sqlite_place.sqlite_file.parent.glob(f"aliquot.db.{HEAD}.*.backup")
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == (HEAD,)


async def _open_and_run(place: Place, statement: str) -> None:
    store = place.store()
    await store.open()
    await store.close()
    await _run_below(place, statement)


async def _run_below(place: Place, statement: str) -> None:
    """Change the database without opening it as Aliquot does."""
    if not place.url:
        with closing(sqlite3.connect(place.sqlite_file)) as connection:
            connection.execute(statement)
            connection.commit()
        return
    await place.execute(statement)
