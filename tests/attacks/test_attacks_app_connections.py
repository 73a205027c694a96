"""Connections between browsers and apps that end in other ways than both sides expect."""

import asyncio
from typing import cast

import pytest
from app_origins import cookie, socket, stand
from websockets.exceptions import ConnectionClosed

from aliquot.execution.agent.streams import SocketStream
from aliquot.service.ports import ByteStream
from aliquot_schema.cluster.streams import StreamTarget
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import AgentId, KernelId
from api_server import ApiServer

pytestmark = pytest.mark.anyio


class Losable:
    """A stream whose agent is lost when `lost` is set."""

    def __init__(self, inner: ByteStream, lost: asyncio.Event) -> None:
        self._inner = inner
        self._lost = lost

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
        await self._inner.write(data)

    async def end(self) -> None:
        await self._inner.end()

    async def close(self) -> None:
        await self._inner.close()


def losing(server: ApiServer) -> asyncio.Event:
    """Set what is given, and the agent of all streams that are opened from now on is lost."""
    lost, known = asyncio.Event(), server.streams.open_stream

    async def open_stream(agent_id: AgentId, kernel_id: KernelId, target: StreamTarget) -> SocketStream:
        return cast("SocketStream", Losable(await known(agent_id, kernel_id, target), lost))

    server.streams.open_stream = open_stream  # type: ignore[method-assign]
    return lost


async def test_a_websocket_ends_when_its_agent_is_lost() -> None:
    async with stand() as server:
        lost = losing(server)
        async with socket(server, {"cookie": await cookie(server)}) as browser:
            await browser.recv()
            lost.set()
            with pytest.raises(ConnectionClosed) as closed:
                async with asyncio.timeout(20):
                    await browser.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1012
