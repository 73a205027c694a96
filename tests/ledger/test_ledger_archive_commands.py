"""Manual archiving on the database of a stopped server, and the commands that read the archives."""

import asyncio
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from aliquot.cli import main
from aliquot.clock import SystemClock
from ledger_workload import record_two_terms
from store_places import Place

YEARS_US = 3 * 365 * 86_400 * 1_000_000


def aliquot(*arguments: str, folder: Path) -> Result:
    return CliRunner().invoke(main, [*arguments, "--data-folder", str(folder)])


def logged(folder: Path, *arguments: str) -> list[dict[str, object]]:
    """All events, oldest first."""
    outcome = aliquot("audit", "log", "--last", "100000", "--json", *arguments, folder=folder)
    assert outcome.exit_code == 0, outcome.output
    found: list[dict[str, object]] = json.loads(outcome.stdout)
    return found


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with some activity, archived three years later."""

    found = tmp_path_factory.mktemp("data")
    asyncio.run(record_two_terms(Place("", found), entries=15))
    before = logged(found)
    patch = pytest.MonkeyPatch()
    for tell in (SystemClock.now_us, SystemClock.wall_us):
        patch.setattr(SystemClock, tell.__name__, lambda clock, tell=tell: tell(clock) + YEARS_US)
    patch.setattr("aliquot.store.archive.events.KEPT_MIN", 0)
    try:
        outcome = aliquot("db", "archive", folder=found)
    finally:
        patch.undo()
    assert outcome.exit_code == 0, outcome.output
    assert f"archived in {found / 'server' / 'archive'}" in outcome.stdout
    *told, archiving = logged(found)
    assert told == before
    assert archiving["kind"] == "action.history_archived"
    return found


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    """A fresh copy."""
    return Path(shutil.copytree(prepared, tmp_path / "data"))


def archives(folder: Path, pattern: str) -> list[Path]:
    found = sorted((folder / "server" / "archive").glob(pattern))
    assert found, f"nothing is called {pattern}"
    return found


def stem_of(file: Path) -> str:
    """The archive's name, a prefix of its file's name."""
    return file.stem.rpartition("-")[0]


def test_each_kind_has_its_files_and_each_file_its_manifest(folder: Path) -> None:
    for kind in ("events", "ledger", "sessions", "kernels", "leases", "holdings"):
        for file in archives(folder, f"{kind}-*.parquet"):
            told = json.loads(file.with_suffix(".json").read_bytes())
            assert (told["id"], told["kind"], told["file"]) == (stem_of(file), kind, file.name)
            assert told["rows"] > 0
            assert file.stat().st_mode & 0o077 == 0


def test_archives_pass_verification(folder: Path) -> None:
    outcome = aliquot("audit", "verify", folder=folder)
    assert outcome.exit_code == 0, outcome.output
    assert "archives with" in outcome.stdout
    assert "of them links of a chain" in outcome.stdout
    assert aliquot("db", "check", folder=folder).stdout == "intact\n"


@pytest.mark.parametrize("kind", ["events", "ledger", "sessions", "holdings"])
def test_a_changed_archive_is_found(folder: Path, kind: str) -> None:
    file = archives(folder, f"{kind}-*.parquet")[0]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    for command in (("audit", "verify"), ("db", "check")):
        outcome = aliquot(*command, folder=folder)
        assert outcome.exit_code == 1
        assert f"{stem_of(file)}: {file} was changed after it was sealed" in outcome.output


def test_a_damaged_archive_is_found_before_statements_are_computed_from_it(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "server" / "aliquot.db")) as connection, connection:
        names = [row[1] for row in connection.execute("PRAGMA table_info(statements)")]
        known = {"id": "project:p/2026-01", "account": "project:p"}
        values = [known.get(name, 1) for name in names]
        connection.execute(f"INSERT INTO statements VALUES ({','.join('?' * len(names))})", values)
    file = archives(folder, "events-*.parquet")[0]
    data = file.read_bytes()
    file.write_bytes(data[:100] + bytes(len(data) - 200) + data[-100:])
    outcome = aliquot("db", "check", folder=folder)
    assert outcome.exit_code == 1
    assert outcome.stdout == f"{stem_of(file)}: {file} was changed after it was sealed\n"


def test_a_changed_manifest_and_a_missing_file_are_found(folder: Path) -> None:
    manifest = archives(folder, "events-*.json")[0]
    told = json.loads(manifest.read_bytes())
    manifest.write_text(json.dumps({**told, "rows": told["rows"] + 1}))
    assert "differs from the seal in the database" in aliquot("audit", "verify", folder=folder).output
    archives(folder, "events-*.parquet")[0].unlink()
    outcome = aliquot("audit", "verify", folder=folder)
    assert outcome.exit_code == 1
    assert "No such file" in outcome.output
    assert "--archive-folder" in outcome.output


def test_archives_in_another_folder_are_found_by_option(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (folder / "server" / "archive").rename(elsewhere)
    assert aliquot("audit", "verify", folder=folder).exit_code == 1
    assert aliquot("audit", "verify", "--archive-folder", str(elsewhere), folder=folder).exit_code == 0


def test_the_audit_log_without_archives_lists_the_remaining_events(folder: Path, tmp_path: Path) -> None:
    everything, elsewhere = logged(folder), tmp_path / "elsewhere"
    (folder / "server" / "archive").rename(elsewhere)
    outcome = aliquot("audit", "log", "--last", "100000", "--json", folder=folder)
    assert outcome.exit_code == 0
    assert (
        "is missing; restore it, or name its folder with archive-folder; the database has them from event"
        in outcome.stderr
    )
    kept = json.loads(outcome.stdout)
    assert [one["number"] for one in kept] == [one["number"] for one in everything[-len(kept) :]]
    assert logged(folder, "--archive-folder", str(elsewhere)) == everything


def test_the_database_after_archiving_is_exported_and_imported_completely(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "everything.gz"
    assert aliquot("db", "export", str(file), folder=folder).exit_code == 0
    again = tmp_path / "again"
    outcome = aliquot("db", "import", str(file), folder=again)
    assert outcome.exit_code == 0, outcome.output
    (folder / "server" / "archive").rename(again / "server" / "archive")
    assert aliquot("db", "check", folder=again).stdout == "intact\n"


def test_archived_sessions_are_a_history_to_simulate(folder: Path) -> None:
    arguments = ["simulate", str(folder / "server" / "archive"), "--gpus", "16", "--json", "--skip-unfitting"]
    outcome = CliRunner().invoke(main, arguments)
    assert outcome.exit_code == 0, outcome.output
    assert json.loads(outcome.stdout)
    nothing = CliRunner().invoke(main, ["simulate", str(folder), "--gpus", "16"])
    assert nothing.exit_code == 2
    assert "has no archived sessions" in nothing.output
