"""Output that cannot be written: one line and an exit code, from every command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aliquot.cli import main
from aliquot.cli.connection.output import cells, show_table, table
from aliquot.cli.session.metrics import trend
from aliquot.client import BlockingClient


@pytest.mark.parametrize("words", [("--version",), ("session", "--help")])
@pytest.mark.parametrize(
    ("output", "code", "message"),
    [
        (">/dev/full", 1, "aliquot: output cannot be written: No space left on device\n"),
        (">&-", 0, ""),
    ],
)
def test_output_that_cannot_be_written_gives_a_one_line_error(
    words: tuple[str, ...], output: str, code: int, message: str
) -> None:
    script = f'"$@" {output}; echo $?'
    argv = ["bash", "-c", script, "bash", sys.executable, "-m", "aliquot", *words]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    assert (ended.stdout, ended.stderr) == (f"{code}\n", message)


def test_a_closed_output_pipe_gives_no_error_message() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    argv = [sys.executable, "-m", "aliquot", "--version"]
    ended = subprocess.run(argv, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (1, "")


def test_a_sparkline_of_extreme_numbers_is_drawn() -> None:
    assert trend([1e308, -1e308]) == "█▁"
    assert trend([1e308] * 80 + [-1e308] * 80) == "█" * 20 + "▁" * 20
    assert trend([0.0, 0.0, 0.0]) == "▁▁▁"
    assert trend([5e-324, 0.0]) == "█▁"


def test_a_table_in_a_pipe_has_one_line_for_each_row_and_tabs_between_cells(capsys: pytest.CaptureFixture[str]) -> None:
    rows, path = table("path", "size"), "folder/" * 100 + "last epoch.bin"
    rows.add_row(*cells(path, "2 bytes"))
    rows.add_row(*cells("a\tb\n", None))
    show_table(rows)
    assert (
        capsys.readouterr().out
        == f"path\tsize\n{path}\t2 bytes\na\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}\t\n"
    )


def test_a_folder_of_keys_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    users, taken = tmp_path / "users.csv", tmp_path / "keys"
    users.write_text("name\nann\n")
    taken.touch()
    done = CliRunner().invoke(main, ["user", "import", str(users), "--keys", str(taken)])
    assert (done.exit_code, done.stderr) == (2, f"aliquot: --keys {taken}: File exists\n")


def test_a_folder_of_exported_state_that_cannot_be_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tmp_path / "state"
    taken.touch()
    monkeypatch.setenv("ALIQUOT_TOKEN", "k" * 20)
    monkeypatch.setattr(BlockingClient, "run", lambda _client, _work: {"job_queue.json": {"revision": 1}})
    done = CliRunner().invoke(main, ["state", "export", str(taken)])
    assert (done.exit_code, done.stderr) == (3, f"aliquot: {taken} cannot be written: File exists\n")
