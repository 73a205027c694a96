"""`--json`: every command with a result has it, and prints exactly one value."""

import json
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from aliquot.cli import all_commands, main
from aliquot.store.migration import HEAD
from rest_server import RestServer

ENDLESS: Final = {
    "lease": "its output is that of the command",
    "agent": "runs until it is told to stop",
    "node start": "runs until it is told to stop",
    "mcp": "runs until its client goes away",
    "serve": "runs until it is told to stop",
    "session forward": "runs until it is stopped",
    "ssh-config": "its output is a part of a configuration file",
    "ssh-proxy": "its output is that of ssh",
    "session shell": "its output is that of the shell",
    "shell": "its output is that of the shell",
}


def _leaves(command: Any, *path: str) -> Iterator[tuple[str, Any]]:
    """Runnable commands by their words, including groups that are commands too."""
    below = getattr(command, "commands", {})
    if not below or command.invoke_without_command:
        yield " ".join(path), command
    for name, one in below.items():
        yield from _leaves(one, *path, name)


def _result(*words: object, code: int = 0) -> Any:
    done = CliRunner().invoke(main, [*map(str, words), "--json"])
    assert done.exit_code == code, done.output
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.fixture
def database(tmp_path: Path) -> tuple[str, Path]:
    """The option for a data folder with an empty database."""
    place = ("--data-folder", tmp_path / "data")
    assert _result("db", "upgrade", *place) == {"version_num": HEAD}
    return place


def test_every_command_with_a_result_has_a_json_option() -> None:
    leaves = dict(_leaves(all_commands()))
    without = {path for path, one in leaves.items() if not any("--json" in option.opts for option in one.params)}
    assert len(leaves) > 60
    assert without == set(ENDLESS)


def test_database_check_verify_and_archive_print_json(database: tuple[str, Path]) -> None:
    counts = {"events": 0, "passes": 0, "unwritten": 0, "holdings": 0}
    archives = {"files": 0, "rows": 0, "links": 0, "gone": 0}
    removed = {"passes": 0, "events": 0, "sessions": 0, "closed": 0}
    assert _result("db", "check", *database) == {"faults": [], "holdings": 0}
    assert _result("audit", "verify", *database) == {"faults": [], **counts, "archives": archives}
    assert _result("db", "archive", *database) == {"removed": removed, "path": None}


def test_database_backup_export_and_import_print_json(database: tuple[str, Path], tmp_path: Path) -> None:
    copy, file = tmp_path / "copy.db", tmp_path / "export"
    assert _result("db", "backup", copy, *database) == {"path": str(copy), "size_bytes": copy.stat().st_size}
    exported = _result("db", "export", file, *database)
    assert (exported["path"], exported["size_bytes"]) == (str(file), file.stat().st_size)
    assert exported["rows"] > 0
    imported = _result("db", "import", file, "--data-folder", tmp_path / "other")
    assert imported == {"events": 0, "passes": 0, "unwritten": 0, "holdings": 0}


def test_database_copy_and_state_export_print_the_written_files_as_json(
    demo_server: RestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALIQUOT_SERVER", demo_server.address)
    monkeypatch.setenv("ALIQUOT_TOKEN", demo_server.token)
    copied = _result("db", "copy")
    assert copied["size_bytes"] == Path(copied["path"]).stat().st_size
    written = _result("state", "export", tmp_path / "state")["files"]
    assert {Path(one["path"]).name for one in written} == {path.name for path in (tmp_path / "state").iterdir()}
    assert all(one["revision"] == json.loads(Path(one["path"]).read_text())["revision"] for one in written)


def test_a_broken_audit_chain_is_reported_as_json_with_exit_code_1(database: tuple[str, Path]) -> None:
    (file,) = database[1].glob("server/aliquot.db")
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE counter SET number = 7")
    for command in (("audit", "verify"), ("db", "check")):
        assert _result(*command, *database, code=1)["faults"]


def test_rotating_and_forgetting_secrets_prints_json(database: tuple[str, Path]) -> None:
    rotated = _result("db", "rotate-secrets", *database)
    assert rotated["secrets"] == 0
    assert stat.S_IMODE(Path(rotated["path"]).stat().st_mode) == 0o600
    assert _result("db", "forget-secrets", "--yes", *database) == {"secrets": 0}


def test_commands_with_json_do_not_prompt_for_confirmation(database: tuple[str, Path]) -> None:
    done = CliRunner().invoke(main, ["db", "forget-secrets", "--json", *map(str, database)], input="y\n")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "add --yes" in done.stderr


def test_agent_key_commands_print_the_same_json(database: tuple[str, Path]) -> None:
    made = _result("agent", "key", "create", "node-1", *database)
    assert made.pop("secret")
    assert _result("agent", "key", "list", *database) == [made]
    revoked = _result("agent", "key", "revoke", "node-1", *database)
    assert {**revoked, "revoked_at": None} == made
    assert _result("agent", "key", "list", *database) == [revoked]


def test_cluster_commands_print_the_same_json_as_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    key = tmp_path / "key"
    key.touch()
    lab = {"name": "lab", "url": "https://lab:8090", "is_default": True}
    attic = {"name": "attic", "url": "https://attic", "is_default": False}
    assert _result("clusters", "add", "lab", "https://lab:8090", "--key-file", str(key)) == lab
    assert _result("clusters", "add", "attic", "https://attic", "--key-file", str(key)) == attic
    assert _result("clusters", "use", "attic") == {**attic, "is_default": True}
    assert _result("clusters", "list") == [{**lab, "is_default": False}, {**attic, "is_default": True}]
    assert _result("clusters", "remove", "lab") == {**lab, "is_default": False}
