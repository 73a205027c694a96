"""Output, read from any offset, while it is written and after."""

import asyncio
from itertools import pairwise

import pytest

from agent_harness import AgentHarness, new_kernel, order, shell, wait_until
from aliquot_schema.cluster.launching import OUTPUT_END, KernelPhase, LogChunk
from aliquot_schema.errors import InvalidRequest, NotFound
from aliquot_schema.ids import KernelId

pytestmark = pytest.mark.anyio


async def read(harness: AgentHarness, kernel: KernelId, *, offset: int = 0) -> list[LogChunk]:
    return [chunk async for chunk in harness.core.follow_log(kernel, offset=offset)]


async def test_output_is_followed_while_it_is_written(harness: AgentHarness) -> None:
    asked = shell("echo one; while ! [ -e go ]; do sleep 0.01; done; echo two; exit 0")
    await harness.core.launch([asked])
    chunks = []
    async for chunk in harness.core.follow_log(asked.kernel_id, offset=0):
        chunks.append(chunk)
        if b"".join(each.data for each in chunks) == b"one\n":
            (harness.folder(asked.kernel_id) / "work" / "go").touch()
    assert b"".join(each.data for each in chunks) == b"one\ntwo\n"
    assert [each.at_end for each in chunks] == [False] * (len(chunks) - 1) + [True]
    for before, after in pairwise(chunks):
        assert after.offset == before.offset + len(before.data)


@pytest.mark.parametrize("offset", [0, 1, 70_000, 199_999, 200_000, 200_001])
async def test_output_is_read_from_any_byte_after_the_end(harness: AgentHarness, offset: int) -> None:
    asked = shell("head -c 200000 /dev/zero | tr '\\0' x")
    await harness.run(asked)
    chunks = await read(harness, asked.kernel_id, offset=offset)
    assert sum(len(chunk.data) for chunk in chunks) == max(0, 200_000 - offset)
    assert chunks[0].offset == offset
    assert chunks[-1].at_end
    await harness.restart()
    assert await read(harness, asked.kernel_id, offset=offset) == chunks


async def test_a_follow_from_the_end_gives_its_offset_immediately_and_then_new_output(harness: AgentHarness) -> None:
    asked = shell("echo one; touch begun; while ! [ -e go ]; do sleep 0.01; done; echo two")
    await harness.core.launch([asked])
    work = harness.folder(asked.kernel_id) / "work"
    await wait_until((work / "begun").exists)
    async with asyncio.timeout(60):
        chunks = []
        async for chunk in harness.core.follow_log(asked.kernel_id, offset=OUTPUT_END):
            chunks.append(chunk)
            (work / "go").touch()
    assert chunks[0] == LogChunk(offset=4, data=b"", at_end=False)
    assert b"".join(chunk.data for chunk in chunks) == b"two\n"
    ended = await read(harness, asked.kernel_id, offset=OUTPUT_END)
    assert ended == [LogChunk(offset=8, data=b"", at_end=False), LogChunk(offset=8, data=b"", at_end=True)]


async def test_many_readers_follow_the_output_of_one_kernel(harness: AgentHarness) -> None:
    asked = shell("for i in 1 2 3 4 5; do echo $i; sleep 0.02; done")
    await harness.core.launch([asked])
    readers = [read(harness, asked.kernel_id) for _ in range(20)]
    texts = [b"".join(chunk.data for chunk in chunks) for chunks in await asyncio.gather(*readers)]
    assert set(texts) == {b"1\n2\n3\n4\n5\n"}


async def test_a_silent_kernel_ends_with_an_empty_chunk(harness: AgentHarness) -> None:
    asked = order("true")
    await harness.run(asked)
    assert await read(harness, asked.kernel_id) == [LogChunk(offset=0, data=b"", at_end=True)]


async def test_a_log_of_an_unknown_kernel_or_a_negative_offset_is_refused(harness: AgentHarness) -> None:
    with pytest.raises(NotFound):
        await read(harness, new_kernel())
    stopped = new_kernel()
    await harness.core.stop(stopped, epoch=1, grace_ms=0)
    with pytest.raises(NotFound):
        await read(harness, stopped)
    asked = order("true")
    await harness.run(asked)
    with pytest.raises(InvalidRequest):
        await read(harness, asked.kernel_id, offset=-1)


async def test_a_link_in_the_place_of_the_output_is_not_followed(harness: AgentHarness) -> None:
    asked = shell("echo secret")
    report = await harness.run(asked)
    assert report.phase is KernelPhase.EXITED
    path = harness.folder(asked.kernel_id) / "output.log"
    path.unlink()
    path.symlink_to("/etc/passwd")
    with pytest.raises(NotFound):
        await read(harness, asked.kernel_id)


@pytest.mark.parametrize("size", ["1T", "1000000000001"])
async def test_an_output_with_a_huge_hole_is_followed_across_the_hole(harness: AgentHarness, size: str) -> None:
    asked = shell(f"echo before; truncate -s {size} /proc/self/fd/1; echo after; exit 0")
    await harness.run(asked)
    chunks = await read(harness, asked.kernel_id)
    assert b"".join(chunk.data for chunk in chunks) == b"before\nafter\n"
    assert max(chunk.offset for chunk in chunks) >= 10**12
    assert chunks[-1].at_end
    for offset in (3, 4000, 10**9, 10**12):
        later = await read(harness, asked.kernel_id, offset=offset)
        assert b"".join(chunk.data for chunk in later) == (b"ore\nafter\n" if offset == 3 else b"after\n")


async def test_following_an_output_that_ends_in_a_hole_ends(harness: AgentHarness) -> None:
    asked = shell("echo before; truncate -s 1T /proc/self/fd/1; exit 0")
    await harness.run(asked)
    async with asyncio.timeout(60):
        chunks = await read(harness, asked.kernel_id)
    assert b"".join(chunk.data for chunk in chunks) == b"before\n"
    assert chunks[-1].at_end
