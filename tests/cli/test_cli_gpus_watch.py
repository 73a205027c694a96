"""`gpus --watch` and `queue --watch`: changes as JSON and in a terminal, until Ctrl-C."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aliquot.cli.connection.screen import fitting, show
from aliquot.client.errors import GraphQLFault, ServerUnreachable
from cli_users import PATIENCE_S, CliUser
from own_processes import end
from rest_server import RestServer

WATCH = ("--watch", "--interval", "0.2")
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
"""For the alternate screen."""
UNAVAILABLE = {"message": "no server leads", "extensions": {"code": "unavailable"}}


@contextmanager
def _watching(
    server: RestServer, *flags: str, home: Path, out: int, command: str = "gpus"
) -> "Iterator[subprocess.Popen[bytes]]":
    person = CliUser(url=server.address, token=server.token, home=home)
    words = [sys.executable, "-m", "aliquot", command, *WATCH, *flags]
    process = subprocess.Popen(words, env=person.environment, stdin=subprocess.DEVNULL, stdout=out)
    try:
        yield process
    finally:
        end(process)
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def _held(server: RestServer) -> Iterator[None]:
    """Hold a GPU in the block."""
    with server.client() as http:
        http.post("/cluster/gpu-allocate", json={"job_id": "watched"}).raise_for_status()
        try:
            yield
        finally:
            http.post("/cluster/gpu-release", json={"job_id": "watched"}).raise_for_status()


def _used(line: bytes) -> float:
    return sum(float(gpu["used"]) for agent in json.loads(line) for gpu in agent["gpus"])


def test_watching_as_json_prints_one_list_per_update(demo_server: RestServer, tmp_path: Path) -> None:
    with _watching(demo_server, "--json", home=tmp_path, out=subprocess.PIPE) as watch:
        assert watch.stdout is not None
        assert _used(watch.stdout.readline()) == 0
        with _held(demo_server):
            while not _used(line := watch.stdout.readline()):
                assert line
        while _used(line := watch.stdout.readline()):
            assert line
        watch.send_signal(signal.SIGINT)
        watch.stdout.read()
        assert watch.wait(PATIENCE_S) == 130


def test_watching_in_a_terminal_shows_changes_until_interrupted(demo_server: RestServer, tmp_path: Path) -> None:
    with _terminal() as (ours, theirs), _watching(demo_server, home=tmp_path, out=theirs) as watch:
        assert ENTER in _read_until(ours, b"0 of 8 GPUs held")
        with _held(demo_server):
            _read_until(ours, b"1 of 8 GPUs held")
        watch.send_signal(signal.SIGINT)
        assert watch.wait(PATIENCE_S) == 0
        assert _read_until(ours, LEAVE).endswith(LEAVE)


@pytest.mark.parametrize("command", ["gpus", "queue"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_terminal_screen_is_restored_after_each_signal(
    demo_server: RestServer, tmp_path: Path, command: str, number: int, code: int
) -> None:
    with _terminal() as (ours, theirs), _watching(demo_server, home=tmp_path, out=theirs, command=command) as watch:
        _read_until(ours, b"free" if command == "gpus" else b"the queue is empty")
        watch.send_signal(number)
        assert watch.wait(PATIENCE_S) == code
        assert _read_until(ours, LEAVE).endswith(LEAVE)


def test_a_screen_shows_the_lines_that_fit_and_counts_the_rest() -> None:
    lines = [str(number) for number in range(10)]
    assert fitting(lines, 10) == lines
    assert fitting(lines, 4) == ["0", "1", "2", "… and 7 more lines"]


def drawing(answers: list[list[str] | BaseException]) -> Callable[[], list[str]]:
    """Draws one of these at each call; exceptions are raised."""

    def draw() -> list[str]:
        found = answers.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found

    return draw


def test_watching_goes_on_when_the_rate_limit_allows_it(capsys: pytest.CaptureFixture[str]) -> None:
    limited = GraphQLFault([{"message": "too much", "extensions": {"code": "rate_limited"}}])
    answers: list[list[str] | BaseException] = [["first"], limited, limited, ["second"], KeyboardInterrupt()]

    with pytest.raises(KeyboardInterrupt):
        show(drawing(answers), interval_s=0.01)
    assert capsys.readouterr().out == "first\nsecond\n"


def test_watching_goes_on_when_the_server_is_back(capsys: pytest.CaptureFixture[str]) -> None:
    away, starting = ServerUnreachable("http://gpu01: refused"), GraphQLFault([UNAVAILABLE])
    answers: list[list[str] | BaseException] = [["first"], away, starting, away, ["second"], KeyboardInterrupt()]

    with pytest.raises(KeyboardInterrupt):
        show(drawing(answers), interval_s=0.01)
    shown = capsys.readouterr()
    assert shown.out == "first\nsecond\n"
    gone, back = shown.err.splitlines()
    assert gone.startswith("aliquot: no answer since ")
    assert gone.endswith("trying again until Ctrl-C: http://gpu01: refused")
    assert back == "aliquot: the server answers again"


@contextmanager
def _terminal() -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


def _read_until(terminal: int, words: bytes) -> bytes:
    seen = b""
    while words not in seen:
        ready, _, _ = select.select([terminal], [], [], PATIENCE_S)
        assert ready, seen
        seen += os.read(terminal, 65536)
    return seen
