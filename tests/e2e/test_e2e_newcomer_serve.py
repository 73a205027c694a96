"""`aliquot serve` for a new user: it stops on a signal, and reports mistakes clearly."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from aliquot.client import Client
from aliquot.settings import read_settings

pytestmark = pytest.mark.anyio

TWO_GPUS = Path(__file__).resolve().parents[1] / "data" / "accelerators" / "two_gpus.toml"
END_S_MAX = 60.0

Serve = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start `aliquot serve` with its own data folder; all are stopped at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str, **variables: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "aliquot", "serve", "--data-folder", str(tmp_path / "data"), *options]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | variables
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(END_S_MAX)
        assert process.stdout
        process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_shuts_the_server_down_cleanly(serve: Serve, tmp_path: Path, number: signal.Signals) -> None:
    process = serve("--port", "0", "--accelerators", str(TWO_GPUS))
    _port(process)
    process.send_signal(number)
    output, _ = process.communicate(timeout=END_S_MAX)
    assert process.returncode == 0
    assert "Traceback" not in output
    assert "has stopped" in output
    assert not (tmp_path / "data" / "server" / "aliquot.db-wal").exists(), "the database was not closed"


ON_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_closing_its_terminal_shuts_a_server_down_cleanly(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    command = [sys.executable, "-m", "aliquot", "serve", "--data-folder", str(folder), "--port", "0"]
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", ON_TERMINAL, *command, "--accelerators", str(TWO_GPUS)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        said = b""
        while not re.search(rb"  data .*\n", said):
            said += os.read(ours, 4096)
        os.close(ours)
        assert process.wait(END_S_MAX) == 0
    finally:
        process.kill()
        process.wait(END_S_MAX)
    assert not (folder / "server" / "aliquot.db-wal").exists(), "the database was not closed"


def test_a_server_started_with_nohup_goes_on_when_its_terminal_is_closed(tmp_path: Path) -> None:
    command = ["nohup", sys.executable, "-m", "aliquot", "serve", "--data-folder", str(tmp_path / "data")]
    process = subprocess.Popen(
        [*command, "--port", "0", "--accelerators", str(TWO_GPUS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        port = _port(process)
        process.send_signal(signal.SIGHUP)
        assert httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
        process.terminate()
        process.communicate(timeout=END_S_MAX)
        assert process.returncode == 0
    finally:
        process.kill()


async def test_a_stopping_server_ends_subscriptions_without_a_stack_trace(serve: Serve, tmp_path: Path) -> None:
    process = serve("--port", "0", "--accelerators", str(TWO_GPUS))
    port = _port(process)
    token = (tmp_path / "data" / "token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
    body = {"query": "subscription { queue_updates(after: 0) { event_number } }"}
    url = f"http://127.0.0.1:{port}/graphql"
    async with httpx.AsyncClient() as http, http.stream("POST", url, json=body, headers=headers) as response:
        assert response.status_code == 200
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=END_S_MAX)
        await response.aread()  # fails if the answer is cut off
    assert process.returncode == 0
    assert "Traceback" not in output


async def test_a_port_in_use_is_named_before_anything_is_started(serve: Serve) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"port: cannot listen on 127.0.0.1 port {port}" in _refusal(
            serve("--port", port, "--accelerators", str(TWO_GPUS))
        )


def test_two_accelerator_files_with_the_same_name_are_refused(serve: Serve, tmp_path: Path) -> None:
    other = tmp_path / TWO_GPUS.name
    other.write_text(TWO_GPUS.read_text().replace("aa2d", "bb2d"))
    output = _refusal(serve("--port", "0", "--accelerators", str(TWO_GPUS), "--accelerators", str(other)))
    assert "two files" in output
    assert "-two_gpus" in output


def test_a_settings_file_that_is_no_toml_is_refused(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "aliquot.toml"
    file.write_text("{{{")
    assert str(file) in _refusal(serve(ALIQUOT_CONFIG=str(file)))


@pytest.mark.parametrize("content", [b"", b"short\n", b"\xff\xfe" * 20])
def test_a_token_file_without_a_token_is_refused(serve: Serve, tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "token").write_bytes(content)
    (folder / "token").chmod(0o600)
    assert str(folder / "token") in _refusal(serve("--port", "0", "--accelerators", str(TWO_GPUS)))


@pytest.mark.parametrize("text", ["gpu.example.org", " gpu.example.org ,, "])
def test_a_list_in_the_environment_is_written_with_commas(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("ALIQUOT_ALLOWED_HOSTS", text)
    monkeypatch.setenv("ALIQUOT_ACCELERATORS", "a.toml,b.toml")
    settings = read_settings()
    assert settings.allowed_hosts == ("gpu.example.org",)
    assert settings.accelerators == (Path("a.toml"), Path("b.toml"))


async def test_a_log_offset_beyond_the_end_is_reported_as_the_end(serve: Serve, tmp_path: Path) -> None:
    port = _port(serve("--port", "0", "--accelerators", str(TWO_GPUS)))
    token = (tmp_path / "data" / "token").read_text().strip()
    async with Client(f"http://127.0.0.1:{port}", token) as client:
        created = await client.change(
            """mutation { create_session(input: {
                 command: { argv: ["true"] }, slots: [{ slot: "cuda.shares", amount: "0.1" }]
               }) { __typename ... on CreateSessionSuccess { session { id } } ... on Error { code message } } }"""
        )
        query = "subscription ($id: ID!, $from: BigInt!) { session_logs(id: $id, offset: $from) { offset at_end } }"
        variables = {"id": created["session"]["id"], "from": 2**63 - 1}
        found = [item["session_logs"] async for item in client.subscribe(query, variables)]
    assert found == [{"offset": 2**63 - 1, "at_end": True}]


def _port(process: subprocess.Popen[str]) -> int:
    """Read the startup output of a server, and return its port."""
    assert process.stdout
    port = None
    for line in process.stdout:
        found = re.search(r"http://127\.0\.0\.1:(\d+)/graphql", line)
        port = int(found[1]) if found else port
        if line.startswith("  data"):
            assert port
            return port
    raise AssertionError("the server ended before it was up")


def _refusal(process: subprocess.Popen[str]) -> str:
    """The output of a server that refused to start."""
    output, _ = process.communicate(timeout=END_S_MAX)
    assert process.returncode == 2, output
    assert output.startswith("aliquot cannot start: "), output
    assert "Traceback" not in output
    return output
