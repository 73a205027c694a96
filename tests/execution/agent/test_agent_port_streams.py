"""Connections to ports of sessions that break: their other side sees that, and does not take it for an end."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from agent_harness import PATIENCE_S, wait_until
from aliquot.execution.agent.streams import SocketStream, connected_port
from aliquot.execution.remote.flow_control import joined
from aliquot_schema.cluster.agent_protocol import CloseStream, StreamData
from aliquot_schema.errors import Unavailable
from flow_streams import flow

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["an agent's event loop", "the server's event loop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param == "the server's event loop"}


class Port(NamedTuple):
    """A connection to a port of a session: the agent's stream, and the session's own side."""

    stream: SocketStream
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


@asynccontextmanager
async def port() -> AsyncIterator[Port]:
    accepted: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.put_nowait((reader, writer))

    async with asyncio.timeout(PATIENCE_S), await asyncio.start_server(accept, "127.0.0.1", 0) as listener:
        stream = await connected_port(*listener.sockets[0].getsockname())
        reader, writer = await accepted.get()
        try:
            yield Port(stream, reader, writer)
        finally:
            await stream.close()
            writer.close()


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def test_a_connection_that_the_session_breaks_is_closed_without_an_end() -> None:
    async with port() as on:
        near = flow()
        carrying = asyncio.create_task(joined(near.stream, on.stream))
        on.writer.write(b"half")
        await on.writer.drain()
        await wait_until(lambda: bool(near.messages))
        reset(on.writer)
        await carrying
    assert near.messages == [StreamData(request=1, data=b"half"), CloseStream(request=1)]


async def test_a_connection_to_a_port_is_reset_unless_a_side_has_ended() -> None:
    async with port() as on:
        await on.stream.write(b"half")
        assert await on.reader.read(4) == b"half"
        await on.stream.close()
        with pytest.raises(ConnectionResetError):
            await on.reader.read()
    async with port() as on:
        await on.stream.write(b"all")
        await on.stream.end()
        await on.stream.close()
        assert await on.reader.read() == b"all"


async def test_a_closed_connection_may_be_ended_and_closed_again() -> None:
    async with port() as on:
        for _ in range(2):
            await on.stream.end()
            await on.stream.close()
            await asyncio.sleep(0)  # the event loop lets the socket go
        assert await on.reader.read() == b""


async def test_an_answer_is_read_though_the_session_has_broken_the_connection() -> None:
    async with port() as on:
        on.writer.write(b"refused")
        await on.writer.drain()
        reset(on.writer)
        await on.writer.wait_closed()
        for _ in range(10):
            await on.stream.write(b"x" * 100_000)
        assert await on.stream.read() == b"refused"
        with pytest.raises(Unavailable, match="the session broke the connection"):
            await on.stream.read()
