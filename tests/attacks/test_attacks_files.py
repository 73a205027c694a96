"""Damaged or exposed files: each gives a one-sentence error and exit code 2, never a traceback."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aliquot.app.identity import read_token
from aliquot.app.server import read_database
from aliquot.cli import main
from aliquot.clock import SystemClock
from aliquot.service.ports import StoreUnavailable
from aliquot.store.open import SQLITE_FILE, open_database
from ledger_workload import record_two_terms
from store_places import Place

pytestmark = pytest.mark.anyio

DAMAGES = 30
DEEP = "a = " + "[" * 20_000 + "]" * 20_000


@pytest.fixture(scope="module")
async def healthy(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> Path:
    """The data folder of a used server."""
    folder = tmp_path_factory.mktemp("healthy")
    await record_two_terms(Place(url="", folder=folder), entries=12)
    return folder


def damaged(healthy: Path, folder: Path, *, seed: int) -> Path:
    """Flip random bytes of the database file."""
    draw = random.Random(seed)
    shutil.copytree(healthy, folder)
    content = bytearray((folder / SQLITE_FILE).read_bytes())
    for _ in range(draw.choice((1, 20, 400))):
        content[draw.randrange(len(content))] = draw.randrange(256)
    (folder / SQLITE_FILE).write_bytes(content)
    return folder


@pytest.mark.parametrize("seed", range(DAMAGES))
async def test_a_damaged_database_gives_a_one_line_error(healthy: Path, tmp_path: Path, seed: int) -> None:
    folder = damaged(healthy, tmp_path / "data", seed=seed)
    database = open_database("", data_folder=folder, now_us=SystemClock().now_us, address="http://127.0.0.1:1")
    said = ""
    try:
        await read_database(database)
    except StoreUnavailable as error:
        said = str(error)
    finally:
        await database.store.close()
    assert "\n" not in said


@pytest.mark.parametrize("command", [("db", "check"), ("audit", "verify"), ("replay",)], ids=" ".join)
@pytest.mark.parametrize("seed", range(0, DAMAGES, 4))
def test_commands_on_a_damaged_database_exit_without_a_traceback(
    healthy: Path, tmp_path: Path, seed: int, command: tuple[str, ...]
) -> None:
    folder = damaged(healthy, tmp_path / "data", seed=seed)
    ended = CliRunner().invoke(main, [*command, "--data-folder", str(folder)])
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exc_info
    assert ended.exit_code in (0, 1, 2)


def run(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "aliquot", *arguments]
    given = {**os.environ, "ALIQUOT_DATA_FOLDER": str(folder), **environment}
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("arguments", "variable"),
    [
        (("serve", "--no-local-agents"), "ALIQUOT_CONFIG"),
        (("serve", "--accelerators", "FILE"), None),
    ],
)
def test_a_deeply_nested_file_is_reported_in_a_sentence(
    tmp_path: Path, arguments: tuple[str, ...], variable: str | None
) -> None:
    path = tmp_path / "deep.toml"
    path.write_text(DEEP)
    given = {} if variable is None else {variable: str(path)}
    words = [str(path) if word == "FILE" else word for word in arguments]
    ended = run(*words, folder=tmp_path / "data", **given)
    assert ended.returncode == 2, ended
    assert "Traceback" not in ended.stderr
    assert "nested too deeply" in ended.stderr


def test_a_deeply_nested_list_of_clusters_is_reported_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "aliquot").mkdir()
    (tmp_path / "aliquot" / "clusters.toml").write_text(DEEP)
    ended = run("clusters", "list", folder=tmp_path, XDG_CONFIG_HOME=str(tmp_path))
    assert ended.returncode in (2, 4), ended
    assert "Traceback" not in ended.stderr
    assert "nested too deeply" in ended.stderr


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o600])
def test_a_token_file_readable_by_others_is_reported_and_left_unchanged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int
) -> None:
    path = tmp_path / "token"
    path.write_text("a-token-of-some-length\n")
    path.chmod(mode)
    assert read_token(path) == "a-token-of-some-length"
    assert path.stat().st_mode & 0o777 == mode
    told = [record.getMessage() for record in caplog.records]
    assert bool(told) is (mode != 0o600)
    assert all(f"has mode {mode:03o}" in words for words in told)


def test_a_new_token_file_is_readable_only_by_its_owner(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    read_token(tmp_path / "token")
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    assert not caplog.records


def test_a_new_token_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed = list[bytes]()

    def flush(file: int) -> None:
        flushed.append(os.pread(file, 100, 0))

    monkeypatch.setattr("aliquot.app.identity.os.fsync", flush)
    # A descriptor that is only written cannot be read back.
    opened = os.open
    monkeypatch.setattr(
        "aliquot.app.identity.os.open", lambda path, flags, *mode: opened(path, flags & ~os.O_WRONLY | os.O_RDWR, *mode)
    )
    assert f"{read_token(tmp_path / 'token')}\n".encode() in flushed
