"""A real agent core and a remote executor, joined by a wire in memory that can be cut."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from agent_harness import PATIENCE_S, AgentHarness, agent_config
from aliquot.execution.remote.codec import Channel, ChannelClosed
from aliquot.execution.remote.dialing import introduce
from aliquot.execution.remote.executor import RemoteExecutor
from aliquot.execution.remote.presence import HeartbeatTiming
from aliquot.execution.remote.session import AgentSession, Outbox
from aliquot_schema.cluster.agent_protocol import PROTOCOLS, Hello
from aliquot_schema.cluster.launching import AgentMessage
from aliquot_schema.ids import AgentId

KEY: Final = "the key"
AGENT: Final = AgentId("agent-1")
QUICK: Final = HeartbeatTiming(beat_s=0.1, lost_s=1.0, greet_s=5.0, answer_s=5.0)


class OneKey:
    """Accepts one key, for every agent, until it is revoked."""

    revoked = False

    def verify(self, agent_id: AgentId, key: str) -> bool:
        return key == KEY and not self.revoked

    def known(self) -> frozenset[AgentId]:
        return frozenset({AGENT})


class Frames(asyncio.Queue[bytes | None]):
    """Few frames, as a socket would buffer, until the reader is gone: then none blocks its sender."""

    def release(self) -> None:
        self._maxsize = 0
        while not self.empty():
            self.get_nowait()


class MemoryWire:
    """One end."""

    def __init__(self, *, out: Frames, into: Frames) -> None:
        self._out = out
        self._into = into
        self.code: int | None = None
        self.bytes_taken = 0
        self._is_over = False

    @property
    def is_over(self) -> bool:
        return self._is_over

    async def send(self, data: bytes) -> None:
        if not self._is_over:
            await self._out.put(data)

    async def receive(self) -> bytes | None:
        frame = None if self._is_over else await self._into.get()
        self._is_over = self._is_over or frame is None
        self.bytes_taken += len(frame or b"")
        return frame

    async def close(self, *, code: int, reason: str) -> None:
        self.code = code
        self._is_over = True
        self._into.release()
        await self._out.put(None)


def wire_pair() -> tuple[MemoryWire, MemoryWire]:
    """The server's end and the agent's."""
    down, up = Frames(64), Frames(64)
    return MemoryWire(out=down, into=up), MemoryWire(out=up, into=down)


def hello(**fields: object) -> Hello:
    plain: dict[str, object] = {
        "agent_id": AGENT,
        "boot_id": "boot",
        "instance": "one",
        "software_version": "aliquot test",
        "protocols": PROTOCOLS,
    }
    return Hello(**{**plain, **fields})  # type: ignore[arg-type] # the fields' own types


class MessageRecorder:
    """Records all messages of an executor."""

    def __init__(self, executor: RemoteExecutor) -> None:
        self.messages: list[AgentMessage] = []
        self.message_arrived = asyncio.Condition()
        self._reading = asyncio.create_task(self._read(executor))

    async def _read(self, executor: RemoteExecutor) -> None:
        async for message in executor.messages():
            async with self.message_arrived:
                self.messages.append(message)
                self.message_arrived.notify_all()

    async def wait_for(self, kind: type, *, count: int = 1) -> AgentMessage:
        """Wait for a number of messages of a kind, and return the last."""

        def found() -> list[AgentMessage]:
            return [message for message in self.messages if isinstance(message, kind)]

        async with self.message_arrived:
            await asyncio.wait_for(self.message_arrived.wait_for(lambda: len(found()) >= count), PATIENCE_S)
        return found()[count - 1]


class ConnectedAgent:
    """An executor, and an agent that dials it."""

    def __init__(self, folder: Path, *, timing: HeartbeatTiming) -> None:
        self.keys = OneKey()
        self.harness = AgentHarness(agent_config(folder))
        self.executor = RemoteExecutor(keys=self.keys, timing=timing, now_us=lambda: time.time_ns() // 1000)
        self.outbox = Outbox()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        await self.harness.core.open()
        await self.executor.start()
        self.received = MessageRecorder(self.executor)
        self._tasks.append(asyncio.create_task(self._forward_reports()))

    async def dial(self, **fields: object) -> None:
        """Connect; until the connection is lost it is served in the background."""
        self.server_wire, self.agent_wire = wire_pair()
        meeting = self.executor.meet(self.server_wire, agent_id=AGENT, key=KEY)
        self._tasks.append(asyncio.create_task(meeting))
        channel = Channel(self.agent_wire)
        welcome = await introduce(channel, hello(**fields))
        self.outbox = Outbox()
        self._tasks.append(asyncio.create_task(self._run_session(channel, beat_s=welcome.beat_s)))

    async def cut(self) -> None:
        """Lose the connection."""
        await self.agent_wire.close(code=1006, reason="")
        await self.server_wire.close(code=1006, reason="")

    async def close(self) -> None:
        await self.executor.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.harness.core.close()

    async def _forward_reports(self) -> None:
        async for message in self.harness.core.reports():
            self.outbox.add(message)

    async def _run_session(self, channel: Channel, *, beat_s: float) -> None:
        with suppress(ExceptionGroup, ChannelClosed):
            await AgentSession(self.harness.core, channel, outbox=self.outbox, beat_s=beat_s).run()


@asynccontextmanager
async def connected_agent(folder: Path, *, timing: HeartbeatTiming = QUICK) -> AsyncIterator[ConnectedAgent]:
    joined = ConnectedAgent(folder, timing=timing)
    await joined.open()
    try:
        yield joined
    finally:
        await joined.close()
