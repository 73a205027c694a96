"""`aliquot gpus --watch`: what changes is seen, as JSON and in a terminal, until Ctrl-C."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli_people import PATIENCE_S, Person
from own_processes import end
from rest_server import RestServer

WATCH = (sys.executable, "-m", "aliquot", "gpus", "--watch", "--interval", "0.2")


@contextmanager
def _watching(server: RestServer, *flags: str, home: Path, out: int) -> "Iterator[subprocess.Popen[bytes]]":
    person = Person(url=server.address, token=server.token, home=home)
    process = subprocess.Popen([*WATCH, *flags], env=person.environment, stdin=subprocess.DEVNULL, stdout=out)
    try:
        yield process
    finally:
        end(process)
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def _held(server: RestServer) -> Iterator[None]:
    """A GPU, until this is left."""
    with server.client() as http:
        http.post("/cluster/gpu-allocate", json={"job_id": "watched"}).raise_for_status()
        try:
            yield
        finally:
            http.post("/cluster/gpu-release", json={"job_id": "watched"}).raise_for_status()


def _used(line: bytes) -> float:
    return sum(float(gpu["used"]) for agent in json.loads(line) for gpu in agent["gpus"])


def test_each_look_is_a_list_of_its_own(demo_server: RestServer, tmp_path: Path) -> None:
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


def test_a_terminal_shows_what_changes_until_it_is_interrupted(demo_server: RestServer, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        with _watching(demo_server, home=tmp_path, out=theirs) as watch:
            _read_until(ours, "0.00 of 8 GPUs held")
            with _held(demo_server):
                _read_until(ours, "1.00 of 8 GPUs held")
            watch.send_signal(signal.SIGINT)
            assert watch.wait(PATIENCE_S) == 0
    finally:
        os.close(ours)
        os.close(theirs)


def _read_until(terminal: int, words: str) -> None:
    seen = b""
    while words.encode() not in seen:
        ready, _, _ = select.select([terminal], [], [], PATIENCE_S)
        assert ready, seen
        seen += os.read(terminal, 65536)
