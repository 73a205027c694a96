"""Connections between browsers and apps that end in other ways than both sides expect."""

import asyncio
import socket as sockets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import cast

import pytest
from websockets.exceptions import ConnectionClosed

from aliquot.api.apps import proxy
from aliquot.execution.agent import streams
from aliquot.execution.agent.streams import SocketStream
from aliquot.service.ports import ByteStream
from aliquot_schema.cluster.streams import StreamTarget
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import AgentId, KernelId
from api_server import ApiServer
from app_origins import at, cookie, socket, stand

pytestmark = pytest.mark.anyio


class Breaking:
    """A stream whose agent is lost when `lost` is set, and whose app reads nothing more when `stopped` is."""

    def __init__(self, inner: ByteStream, lost: asyncio.Event, stopped: asyncio.Event) -> None:
        self._inner = inner
        self._lost = lost
        self._stopped = stopped

    async def read(self) -> bytes:
        reading, losing = asyncio.ensure_future(self._inner.read()), asyncio.create_task(self._lost.wait())
        try:
            await asyncio.wait([reading, losing], return_when=asyncio.FIRST_COMPLETED)
            if self._lost.is_set():
                raise Unavailable("the connection to the agent was lost")
            return reading.result()
        finally:
            reading.cancel()
            losing.cancel()

    async def write(self, data: bytes) -> None:
        if self._stopped.is_set():
            await asyncio.Event().wait()
        await self._inner.write(data)

    async def end(self) -> None:
        await self._inner.end()

    async def close(self) -> None:
        await self._inner.close()


def breaking(server: ApiServer) -> tuple[asyncio.Event, asyncio.Event]:
    """Events that break all streams that are opened from now on, see `Breaking`."""
    lost, stopped, known = asyncio.Event(), asyncio.Event(), server.streams.open_stream

    async def open_stream(agent_id: AgentId, kernel_id: KernelId, target: StreamTarget) -> SocketStream:
        return cast("SocketStream", Breaking(await known(agent_id, kernel_id, target), lost, stopped))

    server.streams.open_stream = open_stream  # type: ignore[method-assign]
    return lost, stopped


async def test_a_websocket_ends_when_its_agent_is_lost() -> None:
    async with stand() as server:
        lost, _ = breaking(server)
        async with socket(server, {"cookie": await cookie(server)}) as browser:
            await browser.recv()
            lost.set()
            with pytest.raises(ConnectionClosed) as closed:
                async with asyncio.timeout(20):
                    await browser.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1012


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of an app that reads nothing. The limits are short."""
    monkeypatch.setattr(proxy, "ANSWER_S", 0.5)
    monkeypatch.setattr(streams, "CLOSE_S", 0.1)
    with sockets.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


async def test_an_upload_to_an_app_that_does_not_read_ends(deaf: int) -> None:
    async with stand() as server:
        headers = {"cookie": await cookie(server)}
        server.streams.listener = deaf
        answer = await at(server, "/", method="PUT", content=b"x" * 20_000_000, headers=headers)
        assert (answer.status_code, answer.text) == (502, "The app gave no valid answer: the app does not read")


async def until_blocked(write: Callable[[bytes], Awaitable[None]], limit_s: float) -> None:
    """Write for ever, but not longer than this."""
    async with asyncio.timeout(limit_s):
        while True:
            await write(b"x" * 1_000_000)


@pytest.mark.usefixtures("deaf")
async def test_a_websocket_to_an_app_that_does_not_read_ends() -> None:
    async with stand() as server:
        _, stopped = breaking(server)
        async with socket(server, {"cookie": await cookie(server)}) as browser:
            await browser.recv()
            stopped.set()
            with pytest.raises(ConnectionClosed) as closed:
                await until_blocked(browser.send, 20)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1012


async def test_a_closed_stream_drops_what_the_app_does_not_read(deaf: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", deaf)
    stream = SocketStream(reader, writer)
    with pytest.raises(TimeoutError):
        await until_blocked(stream.write, 0.5)
    await stream.close()
    with suppress(OSError):
        async with asyncio.timeout(20):
            await writer.wait_closed()
