"""Broadcasts stay within their memory limit, and snapshots expire."""

import asyncio
from contextlib import aclosing

import pytest

from aliquot.api.graphql.broadcast import Broadcast, Frame, Frames, ReplayMemory, SnapshotSource

pytestmark = pytest.mark.anyio


async def test_all_broadcasts_together_respect_the_memory_limit() -> None:
    """No update is lost: frames that are not kept are executed again."""
    memory, ready = ReplayMemory(characters_left=5_000), asyncio.Event()

    async def frames(after: int) -> Frames:
        await ready.wait()
        for number in range(after + 1, 21):
            yield Frame(number, "x" * 400)
        await asyncio.Event().wait()

    async def first() -> Frame:
        return Frame(0, "x" * 3_000)

    found = [Broadcast(frames, first=SnapshotSource(first), start=0, memory=memory) for _ in range(3)]
    for broadcast in found:
        assert (await broadcast.snapshot()).number == 0
    assert memory.characters_left == 2_000
    ready.set()
    for broadcast in found:
        await broadcast.news(19)
        async with aclosing(broadcast.since(0)) as kept:
            assert [frame.number async for frame in kept] == list(range(1, 21))
        assert memory.characters_left >= 0
    for broadcast in found:
        broadcast.close()
    await asyncio.wait([broadcast._running for broadcast in found])
    assert memory.characters_left == 5_000


@pytest.mark.parametrize(("lasts_s", "executions"), [(None, 1), (3600.0, 1), (0.0, 2)])
async def test_a_shared_snapshot_is_reused_for_its_lifetime(lasts_s: float | None, executions: int) -> None:
    executed: list[int] = []

    async def silent(after: int) -> Frames:
        await asyncio.Event().wait()
        yield Frame(after, "")

    async def first() -> Frame:
        executed.append(7)
        return Frame(7, "as it stands")

    broadcast = Broadcast(silent, first=SnapshotSource(first, lasts_s=lasts_s), start=7, memory=ReplayMemory())
    for _ in range(2):
        assert await broadcast.snapshot() == Frame(7, "as it stands")
    assert len(executed) == executions
    broadcast.close()
