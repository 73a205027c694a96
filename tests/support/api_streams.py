"""Streams that echo their input, in place of agents."""

import asyncio

from aliquot.execution.agent.streams import SocketStream, connected_port
from aliquot_schema.cluster.streams import StreamTarget
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import AgentId, KernelId


class EchoStream:
    """Returns the written bytes."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self.is_closed = False

    async def read(self) -> bytes:
        return await self._pieces.get()

    async def write(self, data: bytes) -> None:
        await self._pieces.put(data)

    async def end(self) -> None:
        await self._pieces.put(b"")

    async def close(self) -> None:
        self.is_closed = True


class FixedStream(EchoStream):
    """Returns fixed pieces, whatever is written."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__()
        for piece in (*pieces, b""):
            self._pieces.put_nowait(piece)

    async def write(self, data: bytes) -> None:
        pass


class FakeStreams:
    """Opens streams, and records the calls."""

    def __init__(self) -> None:
        self.opened: list[tuple[AgentId, KernelId, StreamTarget, EchoStream]] = []
        self.listener: int | None = None
        """The local port that all ports lead to."""

        self.results: tuple[bytes, ...] | None = None
        """Answer to requests for results; None: the agent is unreachable."""

    async def open_stream(
        self, agent_id: AgentId, kernel_id: KernelId, target: StreamTarget
    ) -> EchoStream | SocketStream:
        if target.files is not None and self.results is None:
            raise Unavailable("the agent is not connected")
        echo = EchoStream() if target.files is None else FixedStream(*self.results or ())
        self.opened.append((agent_id, kernel_id, target, echo))
        if self.listener is not None and target.port is not None:
            return await connected_port("127.0.0.1", self.listener)
        return echo
