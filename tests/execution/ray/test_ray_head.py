"""What listens at the head's address (Ray, another program, nothing), and how a node reports it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from agent_harness import wait_until
from aliquot.execution.ray import supervisor
from aliquot.execution.ray.node import raylet
from aliquot.execution.ray.node.raylet import Raylet, RayNodeOptions
from aliquot.execution.ray.supervisor import GRPC_HELLO, Unreachable, reach

pytestmark = pytest.mark.anyio

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


async def grpc(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    assert await reader.readexactly(len(GRPC_HELLO)) == GRPC_HELLO
    writer.write(SETTINGS)


async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")


async def hangs_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


@asynccontextmanager
async def listening(answer: Answer) -> AsyncIterator[tuple[str, list[int]]]:
    """An address where a program answers so, and a list with an entry for each connection."""
    calls: list[int] = []
    answering: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await answer(reader, writer)
            await reader.read()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls.append(1)
        answering.add(asyncio.create_task(serve(reader, writer)))

    async with await asyncio.start_server(note, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", calls
        await asyncio.gather(*answering)


async def test_a_head_that_speaks_grpc_is_reached() -> None:
    async with listening(grpc) as (address, _):
        await reach(address)


@pytest.mark.parametrize("answer", [http, hangs_up])
async def test_another_program_at_the_ray_port_is_reported_as_such(answer: Answer) -> None:
    async with listening(answer) as (address, _):
        with pytest.raises(Unreachable, match=f"{address} is in use by another program, not by Ray's head; check the"):
            await reach(address)


async def test_a_silent_program_at_the_ray_port_is_reported_as_not_answering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "REACH_S_MAX", 0.05)
    async with listening(silent) as (address, _):
        with pytest.raises(Unreachable, match=r"did not answer within 0\.05 s"):
            await reach(address)


async def test_with_ray_tls_a_connection_alone_counts_as_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USE_TLS", "1")
    async with listening(silent) as (address, _):
        await reach(address)


async def test_a_node_with_a_wrong_head_port_logs_it_once_and_retries(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aliquot.node")
    async with listening(http) as (address, calls):
        await run_until(RayNodeOptions(head=address), lambda: len(calls) >= 4)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == (
        f"this node cannot join Ray yet: {address} is in use by another program, not by Ray's head; check the port. "
        "The head is the host and port of `aliquot node start --head`; the node joins by itself when it answers"
    )


async def test_the_output_of_ray_is_shown_only_for_the_first_failed_start(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each start writes a line to a file, and one to its output, and fails."""
    caplog.set_level(logging.INFO, "aliquot.node")
    starts = tmp_path / "starts"
    fails = f"echo >> {starts}; echo no such cluster; echo trace >&2; exit 3"
    monkeypatch.setattr(raylet, "start_command", lambda _: ["/bin/sh", "-c", fails])
    async with listening(grpc) as (address, _):
        await run_until(
            RayNodeOptions(head=address), lambda: starts.exists() and len(starts.read_text().splitlines()) >= 3
        )
    started, ended = [record.getMessage() for record in caplog.records if record.name == "aliquot.node"]
    assert started.startswith("starting a Ray node")
    assert ended.startswith("the Ray node ended with exit code 3")
    assert f"Check that {address} is the head's address" in ended
    assert capfd.readouterr().err.count("no such cluster") == 1


async def run_until(options: RayNodeOptions, fact: Callable[[], bool]) -> None:
    stop = asyncio.Event()
    running = asyncio.create_task(Raylet(options, environment={"PATH": "/usr/bin:/bin"}).run(stop))
    await wait_until(fact)
    stop.set()
    await running
