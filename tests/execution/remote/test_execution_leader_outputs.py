"""Outputs and streams through a leader that is frozen: they end when another server leads."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from websockets.asyncio.server import ServerConnection, serve

from aliquot.api.job_output import frame
from aliquot.app import outputs
from aliquot.app.outputs import LeaderOutputs, leader_stream
from aliquot.app.running import OwnOutputs
from aliquot_schema.cluster.launching import LogChunk
from aliquot_schema.cluster.streams import StreamTarget
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import AgentId, KernelId

pytestmark = pytest.mark.anyio

AGENT, KERNEL = AgentId("gpu01"), KernelId("ses_1.1.0")


@dataclass
class FrozenLeader:
    """Sends the beginning of an answer to each connection, and then nothing."""

    beginning: bytes
    url: str = ""
    present: str | None = None
    """The leader, as the other servers know it."""
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    def outputs(self) -> LeaderOutputs:
        return LeaderOutputs(OwnOutputs(lambda: None), leader=lambda: self.present, token="t")

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self.beginning)
        self.asked.set()
        await reader.read()
        writer.close()


@asynccontextmanager
async def frozen_leader(beginning: bytes = b"") -> AsyncIterator[FrozenLeader]:
    leader = FrozenLeader(beginning)
    async with await asyncio.start_server(leader.answer, "127.0.0.1", 0) as listener:
        leader.url = leader.present = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        yield leader


@pytest.fixture(autouse=True)
def _checked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "LEADER_CHECK_S", 0.02)


@pytest.mark.parametrize("present", ["http://other:8090", None])
async def test_output_through_a_frozen_leader_ends_when_another_server_leads(present: str | None) -> None:
    data = frame(LogChunk(offset=0, data=b"one", at_end=False))
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"
    async with asyncio.timeout(20), frozen_leader(head + data) as leader:
        chunks = leader.outputs().follow_log(AGENT, KERNEL, offset=0)
        assert (await anext(chunks)).data == b"one"
        leader.present = present  # unknown for a moment: it may still lead
        if present is None:
            asyncio.get_running_loop().call_later(0.1, setattr, leader, "present", "http://other:8090")
        with pytest.raises(Unavailable, match="was replaced"):
            await anext(chunks)


async def test_a_frozen_leader_that_does_not_answer_is_left_when_another_server_leads() -> None:
    async with asyncio.timeout(20), frozen_leader() as leader, asyncio.TaskGroup() as group:
        target = StreamTarget(port=8888)
        log = group.create_task(_error(anext(leader.outputs().follow_log(AGENT, KERNEL, offset=0))))
        await leader.asked.wait()
        leader.asked.clear()
        stream = group.create_task(_error(leader.outputs().open_stream(AGENT, KERNEL, target)))
        await leader.asked.wait()
        leader.present = "http://other:8090"
        assert "was replaced" in await log
        assert "was replaced" in await stream


async def test_a_stream_through_a_frozen_leader_ends_when_another_server_leads() -> None:
    leads = True

    async def answer(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.send('{"opened":true}')
        await socket.wait_closed()

    async with asyncio.timeout(20), serve(answer, "127.0.0.1", 0) as listener:
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        stream = await leader_stream(url, "t", AGENT, KERNEL, StreamTarget(port=8888), leads=lambda: leads)
        leads = False
        with pytest.raises(Unavailable, match="leader was lost"):
            await stream.read()
        await stream.close()


async def _error(waiting: Awaitable[object]) -> str:
    with pytest.raises(Unavailable) as found:
        await waiting
    return found.value.message
