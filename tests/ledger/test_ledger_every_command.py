"""Every command that works on a database or agent keys without a server: it changes only data derived from
the log, or leaves an event with the Unix account that ran it."""

import asyncio
import inspect
import json
import os
import pwd
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner, Result

from aliquot import cli
from aliquot.cli import all_commands, main
from aliquot.execution.remote.agent_keys import KEY_FILE, KeyFile
from aliquot.store.open import SQLITE_FILE
from aliquot.store.secrets.keys import KEY_FILE as SECRETS_KEY_FILE
from aliquot.store.secrets.keys import SecretKeys
from aliquot.store.secrets.secrets import DatabaseSecrets
from aliquot.store.store import DatabaseStore
from aliquot_schema.ids import UserId
from store_places import Place
from store_records import batch, session

OPENS: Final = ("with_database(", "_key_file(")
"""Commands that open a server's files contain one of these; the others query a server."""
DERIVED: Final = {"holdings", "marks"}
"""Derived from the log at any time."""
LEAVE: Final = {
    "db upgrade": ("database_upgraded", ()),
    "db archive": ("history_archived", ()),
    "db backup": ("database_backed_up", ("NEW",)),
    "db export": ("database_exported", ("NEW",)),
    "db restore": ("database_restored", ()),
    "db rotate-secrets": ("secrets_rotated", ()),
    "db forget-secrets": ("secrets_forgotten", ("--yes",)),
}
"""The event's kind, and arguments; NEW is a missing file."""
KEYS: Final = {"agent key create": "created", "agent key revoke": "revoked"}
"""The key file's word for a change until a server has logged it, see test_ledger_actions.py."""
MOVES: Final = {"db import"}
"""Into another, empty database."""
READ: Final = {
    "agent key list": (),
    "audit device": ("GPU-0",),
    "audit log": (),
    "audit verify": (),
    "db check": (),
    "replay": ("--last", "1"),
}
"""Read-only: no event is left."""
ACTOR: Final = f"unix:{pwd.getpwuid(os.getuid()).pw_name}"


def leaves(command: Any, *path: str) -> Iterator[tuple[str, str]]:
    """Leaf commands by name, with the source of each."""
    below = getattr(command, "commands", {})
    if command.callback is not None and not below:
        yield " ".join(path), inspect.getsource(inspect.unwrap(command.callback))
    for name, one in below.items():
        yield from leaves(one, *path, name)


def test_every_command_that_opens_server_files_is_listed() -> None:
    opening = {path for path, source in leaves(all_commands()) if any(word in source for word in OPENS)}
    assert opening == {*LEAVE, *KEYS, *MOVES, *READ}


async def happen(folder: Path) -> None:
    store = Place("", folder).store()
    await store.open()
    assert isinstance(store, DatabaseStore)
    await store.commit(batch(session()))
    secrets = DatabaseSecrets(store, keys=SecretKeys(folder / SECRETS_KEY_FILE))
    await secrets.put(UserId("ann"), "token", "hush", now_us=1)
    await store.close()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with some activity."""
    found = tmp_path_factory.mktemp("data")
    asyncio.run(happen(found))
    return found


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    """A fresh copy."""
    return Path(shutil.copytree(prepared, tmp_path / "data"))


def aliquot(path: str, *arguments: object, folder: Path) -> Result:
    outcome = CliRunner().invoke(main, [*path.split(), *map(str, arguments), "--data-folder", str(folder)])
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit), outcome.exception
    return outcome


def tables(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All database content that is not derived from its log."""
    with closing(sqlite3.connect(folder / SQLITE_FILE)) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in names - DERIVED}


def actions(folder: Path) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = json.loads(aliquot("audit log", "--kind", "action", "--json", folder=folder).stdout)
    return told


@pytest.mark.parametrize("path", sorted(LEAVE))
def test_a_command_leaves_an_event_with_its_unix_account(folder: Path, tmp_path: Path, path: str) -> None:
    kind, arguments = LEAVE[path]
    filled = [tmp_path / "new" if argument == "NEW" else argument for argument in arguments]
    outcome = aliquot(path, *filled, folder=folder)
    assert outcome.exit_code == 0, outcome.output
    [told] = actions(folder)
    assert (told["kind"], told["actor"]) == (f"action.{kind}", ACTOR)
    assert told["request_id"].startswith("req_")
    assert told["after"]["facts"]
    assert aliquot("db check", folder=folder).exit_code == 0


def test_a_failed_command_leaves_its_event(folder: Path) -> None:
    assert aliquot("db export", Path("/proc/no-file-can-be-made-here"), folder=folder).exit_code == 2
    assert [told["kind"] for told in actions(folder)] == ["action.database_exported"]


def test_the_event_of_an_import_follows_the_imported_events(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "new"
    assert aliquot("db export", file, folder=folder).exit_code == 0
    other = tmp_path / "other"
    assert aliquot("db import", file, folder=other).exit_code == 0
    exported, imported = actions(other)
    assert (exported["kind"], exported["actor"]) == ("action.database_exported", ACTOR)
    assert (imported["kind"], imported["actor"]) == ("action.database_imported", ACTOR)
    assert imported["after"]["facts"] == {"path": str(file), "events": "2"}
    assert aliquot("db check", folder=other).exit_code == 0


def test_agent_key_commands_record_changes_in_the_key_file_only(folder: Path) -> None:
    keys = KeyFile(folder / "server" / KEY_FILE)
    for path, what in KEYS.items():
        before = tables(folder)
        secret = aliquot(path, "node-1", folder=folder).stdout.strip()
        change = keys.unrecorded()[-1]
        assert (change.what, change.agent_id, change.by) == (what, "node-1", ACTOR)
        assert secret not in (folder / "server" / KEY_FILE).read_text()
        assert tables(folder) == before


@pytest.mark.parametrize("path", sorted(READ))
def test_read_only_commands_change_nothing(folder: Path, tmp_path: Path, path: str) -> None:
    shutil.copytree(folder / "server", tmp_path / "kept" / "server")
    aliquot(path, *READ[path], folder=folder)
    assert tables(folder) == tables(tmp_path / "kept")


def test_no_other_command_module_opens_the_database_or_the_key_file() -> None:
    folder = Path(cli.__file__).parent
    found = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if any(f"{opener}(" in path.read_text() for opener in ("choose_database", "open_store", "KeyFile"))
    }
    assert found == {"agent_keys.py", "acceptance/processes.py", "db.py"}
