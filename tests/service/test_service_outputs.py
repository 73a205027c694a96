"""Session output: waited for, followed to its end, and never cut inside a character."""

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot_schema.cluster.launching import KernelChanged, KernelPhase, KernelReport, LogChunk
from aliquot_schema.errors import InvalidRequest, NotFound
from aliquot_schema.ids import AgentId, KernelId, SessionId
from aliquot_schema.states import SessionState
from aliquot_schema.views.live import LogChunkView
from service_bench import agent
from service_stage import CALLER, Stage, granting_only, stage

S = SessionState
A = AgentId("a")


def logs(
    on: Stage, session_id: str, *, rank: int = 0, attempt: int | None = None, offset: int = 0
) -> AsyncIterator[LogChunkView]:
    return on.watching.session_logs(CALLER, session_id, rank=rank, attempt=attempt, offset=offset)


async def read(
    on: Stage, session_id: str, *, rank: int = 0, attempt: int | None = None, offset: int = 0
) -> list[LogChunkView]:
    async with asyncio.timeout(60):
        return [view async for view in logs(on, session_id, rank=rank, attempt=attempt, offset=offset)]


async def until_it_waits(reader: asyncio.Task[list[LogChunkView]]) -> None:
    """Run a reader until it blocks."""
    for _ in range(20):
        await asyncio.sleep(0)
    assert not reader.done()


@pytest.mark.anyio
async def test_reading_the_output_of_a_waiting_session_waits_for_its_start() -> None:
    async with stage([agent("a", devices=1)]) as on:
        on.executor.start_by_itself = False
        first = await on.submit()
        reader = asyncio.create_task(read(on, first))
        await until_it_waits(reader)
        await on.allocator.run_once()
        await until_it_waits(reader)
        await on.dispatch.close()
        await until_it_waits(reader)
        on.executor.start_kernel(KernelId(f"{first}.1.0"))
        await on.settle()
        views = await reader
        assert "".join(view.text for view in views) == f"output of {first}.1.0\n"
        assert [view.at_end for view in views] == [False, True]


@pytest.mark.anyio
async def test_a_session_canceled_before_its_start_has_an_empty_output() -> None:
    async with stage([agent("a", devices=1)]) as on:
        on.executor.start_by_itself = False
        queued, granted = await on.submit(), await on.submit()
        with granting_only():
            await on.allocator.run_once()
        assert {on.session(queued).state, on.session(granted).state} == {S.SCHEDULED, S.QUEUED}
        readers = [asyncio.create_task(read(on, session_id)) for session_id in (queued, granted)]
        for reader in readers:
            await until_it_waits(reader)
        await on.cancel(queued)
        await on.cancel(granted)
        for reader in readers:
            (view,) = await reader
            assert (view.text, view.at_end, view.next_offset) == ("", True, 0)


@pytest.mark.anyio
async def test_after_a_refused_launch_reading_the_output_waits_for_the_next_attempt() -> None:
    async with stage([agent("a", devices=1)]) as on:
        on.executor.agents[A].refuse = KernelReport(
            kernel_id=KernelId(""), phase=KernelPhase.REFUSED, at_us=0, code="insufficient_resource", message="no"
        )
        first = await on.submit()
        await on.advance()
        assert on.session(first).state is S.QUEUED
        reader = asyncio.create_task(read(on, first))
        await until_it_waits(reader)
        (old,) = await read(on, first, attempt=1)
        assert (old.text, old.at_end, old.kernel_id) == ("", True, f"{first}.1.0")
        on.executor.agents[A].refuse = None
        on.clock.advance(2)
        await on.advance()
        assert "".join(view.text for view in await reader) == f"output of {first}.2.0\n"


@pytest.mark.anyio
async def test_output_of_any_rank_can_be_read_from_an_offset() -> None:
    async with stage([agent("a", devices=2)]) as on:
        gang = await on.submit(kernels=2)
        await on.advance()
        views = await read(on, gang, rank=1, offset=10)
        assert "".join(view.text for view in views) == f"output of {gang}.1.1\n"[10:]
        assert (views[0].offset, views[0].rank) == (10, 1)


@pytest.mark.anyio
async def test_a_rank_without_which_an_elastic_session_began_has_an_empty_output_during_and_after_the_attempt() -> None:
    async with stage([agent("a", devices=1)]) as on:
        gang = await on.submit(kernels=2, cluster_size_min=1, max_retries=1)
        await on.advance()
        assert on.live() == [f"{gang}.1.0"]
        for attempt in (None, 1):
            (view,) = await read(on, gang, rank=1, attempt=attempt)
            assert (view.text, view.at_end) == ("", True)
        lost = KernelReport(kernel_id=KernelId(f"{gang}.1.0"), phase=KernelPhase.EXITED, at_us=5, code="shim_lost")
        await on.on_event(KernelChanged(agent_id=A, report=lost))
        assert on.session(gang).state is S.QUEUED
        waiting = asyncio.create_task(read(on, gang, rank=1))
        await until_it_waits(waiting)
        on.clock.advance(60)
        await on.advance()
        assert on.session(gang).attempt == 2
        for reader in (waiting, read(on, gang, rank=1, attempt=1)):
            (view,) = await reader
            assert (view.text, view.at_end) == ("", True)


@pytest.mark.anyio
@pytest.mark.parametrize(("rank", "attempt"), [(2, None), (-1, None), (0, 0), (0, 3)])
async def test_ranks_and_attempts_that_do_not_exist_are_not_found(rank: int, attempt: int | None) -> None:
    async with stage([agent("a", devices=2)]) as on:
        gang = await on.submit(kernels=2)
        await on.advance()
        with pytest.raises(NotFound):
            await read(on, gang, rank=rank, attempt=attempt)


@pytest.mark.anyio
async def test_output_of_an_attempt_without_records_is_not_found() -> None:
    async with stage([agent("a", devices=1)]) as on:
        on.executor.agents[A].refuse = KernelReport(kernel_id=KernelId(""), phase=KernelPhase.REFUSED, at_us=0)
        first = await on.submit()
        await on.advance()
        on.executor.agents[A].refuse = None
        on.clock.advance(2)
        await on.advance()
        del on.state.kernels[KernelId(f"{first}.1.0")]
        with pytest.raises(NotFound):
            await read(on, first, attempt=1)


@pytest.mark.anyio
async def test_an_unknown_session_and_a_negative_offset_are_refused() -> None:
    async with stage([]) as on:
        with pytest.raises(NotFound):
            await read(on, "ses_none")
        with pytest.raises(InvalidRequest):
            await read(on, await on.submit(), offset=-1)


async def shown(pieces: list[bytes]) -> list[LogChunkView]:
    async with stage([agent("a", devices=1)]) as on:
        first = SessionId(await on.submit())
        await on.advance()
        offset, chunks = 0, []
        for piece in pieces:
            chunks.append(LogChunk(offset=offset, data=piece, at_end=False))
            offset += len(piece)
        on.executor.logs[KernelId(f"{first}.1.0")] = [*chunks, LogChunk(offset=offset, data=b"", at_end=True)]
        return await read(on, first)


@settings(deadline=None)
@given(st.text(max_size=30), st.data())
def test_output_split_inside_characters_is_joined_correctly_with_consecutive_offsets(
    text: str, data: st.DataObject
) -> None:
    raw = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    pieces = [raw[begin:end] for begin, end in pairwise([0, *cuts, len(raw)])]
    views = asyncio.run(shown(pieces))
    assert "".join(view.text for view in views) == text
    assert views[0].offset == 0
    assert all(view.next_offset == after.offset for view, after in pairwise(views))
    assert all(view.next_offset - view.offset == len(view.text.encode()) for view in views)
    assert [view.at_end for view in views] == [False] * len(pieces) + [True]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=6), max_size=6))
def test_invalid_utf8_bytes_in_output_are_replaced_and_none_is_lost_or_repeated(pieces: list[bytes]) -> None:
    views = asyncio.run(shown(pieces))
    raw = b"".join(pieces)
    assert "".join(view.text for view in views) == raw.decode("utf-8", "replace")
    assert views[-1].next_offset == len(raw)
