"""Starts of the program from a warm process see and leave the same as a cold start."""

import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from long_tests import IS_LONG
from warm_starts import COMMAND

COLD = (sys.executable, "-s", "-m", "aliquot")
"""Starts with Python options are cold."""
START_S_MAX = 30.0


def outcome(command: tuple[str, ...], *words: str, folder: Path, **variables: str) -> tuple[int, str, str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "COLUMNS": "70", **variables}
    environment |= {name: value for name, value in os.environ.items() if name.startswith(("PYTHON", "LC_", "LANG"))}
    done = subprocess.run(
        [*command, *words], capture_output=True, text=True, timeout=60, check=False, cwd=folder, env=environment
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--version",),
        ("session", "--help"),
        ("session", "list", "--unknown"),
        ("session", "list"),
        ("serve", "--data-folder", "missing/data", "--port", "none"),
        ("db", "check", "--data-folder", "nowhere"),
    ],
    ids=lambda words: " ".join(words),
)
def test_a_warm_start_has_the_same_output_as_a_cold_start(tmp_path: Path, words: tuple[str, ...]) -> None:
    warm, cold = (
        outcome(command, *words, folder=tmp_path, ALIQUOT_URL="http://127.0.0.1:9") for command in (COMMAND, COLD)
    )
    assert warm == cold


@pytest.mark.skipif(IS_LONG, reason="all starts of scripts/test --long are cold")
@pytest.mark.parametrize("has_session", [True, False])
def test_a_warm_start_is_a_child_with_files_and_signals_of_its_own(tmp_path: Path, has_session: bool) -> None:
    log, other, port = tmp_path / "log", tmp_path / "other", free_port()
    with log.open("wb") as output, other.open("wb"):
        process = subprocess.Popen(
            [*COMMAND, "serve", "--no-local-agents", "--port", str(port), "--data-folder", str(tmp_path / "data")],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=has_session,
            cwd=tmp_path,
        )
        try:
            until_it_answers(port)
            proc = Path(f"/proc/{process.pid}")
            assert proc.joinpath("cwd").readlink() == tmp_path
            group = process.pid if has_session else os.getpgid(0)
            assert (os.getpgid(process.pid), os.getsid(process.pid) == process.pid) == (group, has_session)
            assert [str(proc.joinpath("fd", name).readlink()) for name in "012"] == ["/dev/null", str(log), str(log)]
            assert str(other) not in open_files(proc)
            process.terminate()
            assert process.wait(START_S_MAX) == 0
        finally:
            process.kill()
            process.wait()


def open_files(proc: Path) -> set[str]:
    found = set()
    for path in proc.joinpath("fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.add(str(path.readlink()))
    return found


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def until_it_answers(port: int) -> None:
    end = time.monotonic() + START_S_MAX
    while True:
        with suppress(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{port}/readyz").raise_for_status()
            return
        assert time.monotonic() < end
        time.sleep(0.02)
