"""Output of job arrays, reasons shown while waiting, and control sequences of jobs."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from aliquot.cli.connection.output import shown_controls
from cli_users import CliUser
from rest_server import rest_server

CLEAR = "\x1b]52;c;ZXZpbA==\x07"
"""Sets the terminal's clipboard."""
SCRIPT = f"echo begin $ALIQUOT_ARRAY_INDEX; printf 'end {CLEAR} %s' $ALIQUOT_ARRAY_INDEX"


@pytest.fixture(scope="module")
def person() -> Iterator[CliUser]:
    """A user of a demo cluster in a folder open to job accounts, as pytest's own folders are not."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with rest_server(Path(folder) / "data") as server:
            yield CliUser(url=server.address, token=server.token, home=Path(folder))


@pytest.fixture(scope="module")
def array(person: CliUser) -> str:
    words = ("session", "create", "--name", "outputs", "-r", "cpu=1", "-a", "0-3", "--max-parallel", "2", "--follow")
    done = person.run(*words, "--", "sh", "-c", SCRIPT)
    lines = [f"[{index}] {line}" for index in range(4) for line in (f"begin {index}", f"end {CLEAR} {index}")]
    assert sorted(done.out.splitlines()) == sorted(lines)
    return done.err.splitlines()[0]


def test_the_output_of_an_array_is_that_of_all_its_tasks(array: str, person: CliUser) -> None:
    lines = [f"[{index}] {line}" for index in range(4) for line in (f"begin {index}", f"end {CLEAR} {index}")]
    assert person.run("session", "logs", array).out.splitlines() == lines
    assert sorted(person.run("session", "logs", "--follow", "outputs").out.splitlines()) == sorted(lines)
    assert person.run("session", "logs", array, "--tail", "1").out.splitlines() == lines[1::2]


def test_array_logs_of_one_task_are_selected_by_index_or_name(array: str, person: CliUser) -> None:
    text = f"begin 2\nend {CLEAR} 2"
    assert person.run("session", "logs", array, "--task", "2").out == text
    assert person.run("session", "logs", "outputs_2").out == text
    assert person.run("session", "logs", "--follow", f"{array}_2").out == text


def test_a_failed_task_ends_the_command_with_1_after_all_output(person: CliUser) -> None:
    words = ("session", "create", "-r", "cpu=1", "-a", "0-1", "--follow", "--", "sh", "-c")
    done = person.run(*words, "echo at $ALIQUOT_ARRAY_INDEX; exit $ALIQUOT_ARRAY_INDEX", code=1)
    assert sorted(done.out.splitlines()) == ["[0] at 0", "[1] at 1"]
    assert "failed" in done.err


def test_on_a_terminal_control_sequences_are_text_unless_raw(array: str, person: CliUser) -> None:
    assert b"end ^[]52;c;ZXZpbA==^G 2" in _on_terminal(person, "session", "logs", f"{array}_2")
    assert CLEAR.encode() in _on_terminal(person, "session", "logs", f"{array}_2", "--raw")


def test_a_gang_knows_the_number_of_its_nodes(person: CliUser) -> None:
    script = person.home / "gang.sh"
    script.write_text(
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\necho $SLURM_NNODES of $ALIQUOT_NODES\n"
    )
    made = person.run("session", "create", "--wait", str(script)).out.strip()
    assert sorted(person.run("session", "logs", made).out.splitlines()) == ["0: 2 of 2", "1: 2 of 2"]


def test_a_hole_in_the_output_file_is_shown_as_a_hole_on_a_terminal(person: CliUser) -> None:
    script = "echo one; truncate -s {} /proc/self/fd/1; echo two"
    for size, hole in ((3000, b"hole: 2,996 bytes"), (30_000_000, b"hole: 29,9")):
        made = person.run("session", "create", "--wait", "--", "sh", "-c", script.format(size)).out.strip()
        shown = _on_terminal(person, "session", "logs", made)
        assert hole in shown, size
        assert b"\0" not in shown
        assert b"^@^@" not in shown
        assert shown.startswith(b"one")
        assert shown.index(hole) < shown.index(b"two"), "the gap is reported in its place"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\r\n", "a\tb\r\n"),
        ("\x1b[31mred\x1b[0m", "^[[31mred^[[0m"),
        ("\x9b31m", "<9B>31m"),
        ("\x00\x07\x08\x7f", "^@^G^H^?"),
        ("grün \N{SNOWMAN}", "grün \N{SNOWMAN}"),
        ("a\n" + "\0" * 2996 + "b", "a\n[hole: 2,996 bytes]b"),
    ],
)
def test_control_characters_are_written_as_less_does(text: str, shown: str) -> None:
    assert shown_controls(text) == shown


def test_waiting_prints_the_reason_immediately_and_after_each_change(person: CliUser) -> None:
    held = ("-r", "gpu=8", "--cluster-size", "2")
    hog = person.run("session", "create", *held, "--name", "hog", "--", "sleep", "600").out.strip()
    command = [sys.executable, "-m", "aliquot", "session", "create", *held, "--wait", "--", "true"]
    waiting = subprocess.Popen(
        command, env=person.environment, cwd=person.home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert waiting.stdout is not None
        assert waiting.stderr is not None
        id = waiting.stdout.readline().strip()
        first = waiting.stderr.readline()
        assert first.startswith(f"aliquot: {id} waits: ")
        assert hog in first
        assert "8 GPUs" in first or "devices" in first or "cuda.device" in first, first
        person.run("session", "hold", id)
        while "it is held" not in (second := waiting.stderr.readline()):
            assert second
        person.run("session", "release", id)
        person.run("session", "cancel", hog)
        out, err = waiting.communicate(timeout=120)
    finally:
        waiting.kill()
        waiting.communicate()
    assert waiting.returncode == 0, err
    assert f"aliquot: {id} has started" in err or f"{id}: completed" in err
    assert json.loads(person.run("session", "show", id, "--json").out)["state"] == "completed", out


def _on_terminal(person: CliUser, *words: str) -> bytes:
    """A command's output on a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "aliquot", *words]
    process = subprocess.Popen(
        command, env=person.environment, cwd=Path(person.home), stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    found = b""
    try:
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the terminal is closed
                break
            if not piece:
                break
            found += piece
        assert process.wait(120) == 0, found
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return found


def test_the_list_counts_the_tasks_of_an_array_by_state(array: str, person: CliUser) -> None:
    listed = person.run("session", "list", "--all", "--name", "outputs").out
    assert array[-8:] in listed
    assert "4 completed" in listed
    assert "0 failed" not in listed
