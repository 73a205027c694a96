"""The ledger commands on the database of a stopped server."""

import asyncio
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from aliquot.cli import main
from aliquot.client import BlockingClient
from aliquot.clock import SystemClock
from aliquot.store.engines.sqlite import FileLock
from aliquot_schema.errors import Unauthenticated
from ledger_workload import workload_on
from store_places import Place

ENTRIES = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with some activity."""

    async def happen() -> None:
        async with workload_on(Place("", found)) as (workload, running):
            await workload.run_until_entries(running.ledger, ENTRIES)

    found = tmp_path_factory.mktemp("data")
    asyncio.run(happen())
    return found


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Locked as by a server."""
    lock = FileLock.take(path)
    try:
        yield
    finally:
        lock.release()


def aliquot(*arguments: str, folder: Path) -> Result:
    return CliRunner().invoke(main, [*arguments, "--data-folder", str(folder)])


def copied(folder: Path, other: Path) -> Path:
    """The database of a data folder, copied into another one."""
    (other / "server").mkdir()
    return shutil.copy(folder / "server" / "aliquot.db", other / "server" / "aliquot.db")


def test_the_last_passes_replay_without_a_difference(folder: Path) -> None:
    outcome = aliquot("replay", "--last", "20", folder=folder)
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stdout.startswith("20 passes, ")
    assert outcome.stdout.endswith(", 0 differences\n")


def test_one_pass_is_found_by_its_number(folder: Path) -> None:
    told = json.loads(aliquot("replay", "--last", "1", "--json", folder=folder).stdout)
    again = aliquot("replay", str(told[0]["pass"]), "--json", folder=folder)
    assert json.loads(again.stdout) == told


def test_replay_under_another_policy_shows_differences(folder: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("order: sjf\n")
    outcome = aliquot("replay", "--last", "40", "--policy", str(policy), folder=folder)
    assert outcome.exit_code == 1
    assert " verdicts " in outcome.stdout or " placements " in outcome.stdout
    plain = aliquot("replay", "--last", "40", "--policy", str(policy), "--json", folder=folder)
    assert plain.exit_code == 1
    differences = [difference for one in json.loads(plain.stdout) for difference in one["differences"]]
    assert outcome.stdout.endswith(f", {len(differences)} differences\n")
    assert all(isinstance(one["was"] or one["now"], dict | int) for one in differences)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["replay"], "give either the number of a pass, or --last N"),
        (["replay", "999999"], "no pass from 999999 to 999999 is recorded"),
        (["replay", "0"], "the ledger does not reach back to pass 0"),
        (["audit", "device", "a-gpu-0", "--at", "yesterday"], "--at yesterday: give a time like 2026-03-01T12:00:00Z"),
    ],
)
def test_wrong_arguments_are_reported(folder: Path, arguments: list[str], words: str) -> None:
    outcome = aliquot(*arguments, folder=folder)
    assert outcome.exit_code == 2
    assert words in outcome.stderr


def test_a_folder_without_a_database_is_reported_and_stays_empty(tmp_path: Path) -> None:
    outcome = aliquot("audit", "verify", folder=tmp_path)
    assert outcome.exit_code == 2
    assert "there is no such file" in outcome.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_holders_of_a_device_are_listed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemClock, "now_us", lambda _: 4_000_000_000_000_000)  # long after all events
    ever = ["--since", "2000-01-01", "--until", "2100-01-01", "--json"]
    found = dict[str, list[dict[str, object]]]()
    for device in [f"{agent}-gpu-{index}" for agent in "abc" for index in range(4)]:
        found[device] = json.loads(aliquot("audit", "device", device, *ever, folder=folder).stdout)
    assert any(found.values())
    for device, holdings in found.items():
        assert all(one["device_id"] == device and one["pass_number"] and one["session_id"] for one in holdings)
    until = json.loads(aliquot("audit", "device", "a-gpu-0", *ever[2:], folder=folder).stdout)
    assert until == found["a-gpu-0"]
    before = aliquot("audit", "device", "a-gpu-0", "--at", "2000-01-01", folder=folder).stdout
    assert before == "a-gpu-0 was not held then\n"
    named = aliquot("audit", "device", "a/gpu-0", "--at", "2000-01-01", folder=folder).stdout
    assert named == "a/gpu-0 was not held then; without a server, give the device's id\n"


def test_the_audit_log_lists_who_did_what(folder: Path) -> None:
    told = aliquot("audit", "log", "--people", "--kind", "policy", "--last", "5", folder=folder).stdout
    assert "root (req_root)  policy.changed" in told
    assert "hunter2" not in aliquot("audit", "log", "--last", "10000", folder=folder).stdout


def test_user_texts_cannot_forge_lines_of_the_audit_log(folder: Path, tmp_path: Path) -> None:
    file = copied(folder, tmp_path)
    newest = "(SELECT max(number) FROM events WHERE entity = 'session' AND entity_version > 1)"
    with closing(sqlite3.connect(file)) as connection, connection:
        text = "a\x1b[2J\n9999  root  policy.changed  policy"
        changed = f"UPDATE events SET payload = json_set(payload, '$.name', ?) WHERE number = {newest}"
        connection.execute(changed, (text,))
    told = aliquot("audit", "log", "--kind", "session", "--last", "10000", folder=tmp_path).stdout
    assert "-> a\ufffd[2J\ufffd9999  root  policy.changed  policy\n" in told


def test_the_hash_chains_are_intact(folder: Path) -> None:
    outcome = aliquot("audit", "verify", folder=folder)
    assert outcome.exit_code == 0
    assert outcome.stdout.startswith("intact: ")


def test_a_database_can_be_checked_backed_up_exported_and_imported(folder: Path, tmp_path: Path) -> None:
    archive, copy, other = tmp_path / "archive", tmp_path / "copy.db", tmp_path / "other"
    assert aliquot("db", "check", folder=folder).stdout == "intact\n"
    assert aliquot("db", "backup", str(copy), folder=folder).exit_code == 0
    told = aliquot("db", "check", "--database", f"sqlite:///{copy}", folder=tmp_path)
    assert told.stdout == "intact\n"
    assert "environments of sessions" in aliquot("db", "export", str(archive), folder=folder).stdout
    moved = aliquot("db", "import", str(archive), folder=other)
    assert moved.stdout == aliquot("audit", "verify", folder=folder).stdout
    assert aliquot("replay", "--last", "5", folder=other).exit_code == 0
    for command in ("backup", "export"):
        again = aliquot("db", command, str(archive), folder=folder)
        assert (again.exit_code, "exists; name another file" in again.stderr) == (2, True)
        nowhere = aliquot("db", command, str(tmp_path / "no" / "file"), folder=folder)
        assert (nowhere.exit_code, f"there is no folder {tmp_path / 'no'}" in nowhere.stderr) == (2, True)
    refused = aliquot("db", "import", str(archive), folder=other)
    assert (refused.exit_code, "is not empty" in refused.stderr) == (2, True)


def test_commands_refuse_the_database_of_a_running_server(folder: Path) -> None:
    with held(folder / "server" / "aliquot.db.lock"):
        for command in (["db", "upgrade"], ["db", "check"], ["audit", "verify"], ["replay", "--last", "1"]):
            outcome = aliquot(*command, folder=folder)
            assert outcome.exit_code == 2
            assert f"another server (process {os.getpid()}) uses it" in outcome.stderr


def test_a_schema_before_the_baseline_is_refused(tmp_path: Path) -> None:
    assert aliquot("db", "upgrade", folder=tmp_path).exit_code == 0
    file = tmp_path / "server" / "aliquot.db"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0016'")
    for command in ("check", "upgrade"):
        outcome = aliquot("db", command, folder=tmp_path)
        assert outcome.exit_code == 2
        assert "has schema 0016; this version of Aliquot upgrades schema 0017 and later. Start a" in outcome.stderr
    assert [path.name for path in file.parent.glob("*.backup")] == []


def test_a_check_lists_unreadable_rows(folder: Path, tmp_path: Path) -> None:
    file = copied(folder, tmp_path)
    with closing(sqlite3.connect(file)) as connection, connection:
        newest = "(SELECT max(number) FROM events WHERE entity = 'lease')"
        connection.execute(f"UPDATE events SET payload = substr(payload, 1, 40) WHERE number = {newest}")
        connection.execute("UPDATE sessions SET state = 'bogus' WHERE id = (SELECT min(id) FROM sessions)")
    outcome = aliquot("db", "check", folder=tmp_path)
    assert outcome.exit_code == 1
    chain, lease, session = outcome.stdout.splitlines()
    assert chain.endswith("was changed after it was written")
    assert lease.startswith("leases: ses_")
    assert lease.endswith("has a newest event that cannot be read: DecodeError: Input data was truncated")
    assert session.endswith("cannot be read: KeyError: 'bogus'")


def test_a_server_that_does_not_accept_the_key_is_named_where_there_is_no_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: BlockingClient) -> None:
        raise Unauthenticated("the server does not accept this token")

    monkeypatch.setattr(BlockingClient, "me", refuse)
    monkeypatch.setattr(BlockingClient, "audit", lambda self, **_: refuse(self))
    found = {"ALIQUOT_SERVER": "http://127.0.0.1:1", "ALIQUOT_TOKEN": "old", "ALIQUOT_DATA_FOLDER": str(tmp_path)}
    refused = CliRunner().invoke(main, ["audit", "log"], env=found)
    assert (refused.exit_code, refused.stderr.splitlines()[0]) == (4, "aliquot: the server does not accept this token")
