"""Connections to ports of sessions that break: their other side sees that, and does not take it for an end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from agent_harness import PATIENCE_S, wait_until
from aliquot.execution.agent.streams import SocketStream
from aliquot.execution.remote.flow_control import joined
from aliquot_schema.cluster.agent_protocol import CloseStream, StreamData
from aliquot_schema.cluster.streams import reset
from flow_streams import flow

pytestmark = pytest.mark.anyio


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
        opened = await asyncio.open_connection(*listener.sockets[0].getsockname())
        reader, writer = await accepted.get()
        stream = SocketStream(*opened, is_port=True)
        try:
            yield Port(stream, reader, writer)
        finally:
            await stream.close()
            writer.close()


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


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})], ids=["the server's event loop"])
async def test_a_closed_connection_may_be_ended_and_closed_again(anyio_backend: object) -> None:
    async with port() as on:
        for _ in range(2):
            await on.stream.end()
            await on.stream.close()
            await asyncio.sleep(0)  # the event loop lets the socket go
        assert await on.reader.read() == b""
