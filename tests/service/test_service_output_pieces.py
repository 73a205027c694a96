"""Chunks of an output: none is delayed or splits a character, and joined they are the whole output."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.service.subscriptions.job_output import piece_of
from aliquot_schema.cluster.launching import OUTPUT_END, KernelPhase, KernelReport, LogChunk
from aliquot_schema.errors import Forbidden, NotFound, Unavailable
from aliquot_schema.ids import AgentId, KernelId, UserId
from aliquot_schema.requests import Caller, Role
from aliquot_schema.states import KernelState
from aliquot_schema.views.live import SessionLogView
from core_records import kernel
from service_bench import agent
from service_stage import CALLER, Stage, stage

KERNEL = kernel(KernelState.RUNNING)
BOB = replace(CALLER, user=UserId("bob"), role=Role.OPERATOR)


@dataclass
class Printed:
    """An output as an agent sends it; an unfinished one is followed for ever."""

    data: bytes
    has_ended: bool = False
    chunk_bytes: int = 64 * 1024
    hole: range = range(0)
    """The removed part."""
    ends: bool = True
    """Whether the agent supports `OUTPUT_END`."""

    async def follow_log(self, _agent: AgentId, _kernel: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        if offset == OUTPUT_END and self.ends:
            offset = len(self.data)
            yield LogChunk(offset=offset, data=b"", at_end=False)
        while offset < len(self.data):
            offset = self.hole.stop if offset in self.hole else offset
            stop = self.hole.start if offset < self.hole.start else len(self.data)
            data = self.data[offset : min(stop, offset + self.chunk_bytes)]
            yield LogChunk(offset=offset, data=data, at_end=False)
            offset += len(data)
        if not self.has_ended:
            await asyncio.Event().wait()
        yield LogChunk(offset=offset, data=b"", at_end=True)


async def piece(printed: Printed, *, offset: int = 0, bytes_max: int = 1000) -> SessionLogView:
    return await piece_of(printed, KERNEL, offset=offset, bytes_max=bytes_max, is_over=printed.has_ended)


@settings(deadline=None)
@given(st.text(max_size=60), st.integers(4, 20), st.integers(1, 20), st.booleans())
def test_log_pieces_joined_give_the_whole_output(text: str, bytes_max: int, chunk_bytes: int, has_ended: bool) -> None:
    printed = Printed(text.encode(), has_ended, chunk_bytes)

    async def read() -> None:
        found, offset = "", 0
        while True:
            one = await piece(printed, offset=offset, bytes_max=bytes_max)
            assert (one.offset, one.length, one.left_out) == (offset, len(printed.data), 0)
            assert len(one.text.encode()) == one.next_offset - one.offset <= bytes_max
            assert one.at_end == (has_ended and not one.has_more)
            found, offset = found + one.text, one.next_offset
            if not one.has_more:
                break
        assert (found, offset) == (text, len(printed.data))

    asyncio.run(read())


@settings(deadline=None)
@given(st.text(max_size=60), st.integers(1, 80), st.integers(1, 20))
@example("\u0800\x80\x80", 6, 1)
@example("\U00010000\x80", 5, 2)
def test_the_last_piece_of_a_log_begins_at_a_character_boundary(text: str, back: int, chunk_bytes: int) -> None:
    one = asyncio.run(piece(Printed(text.encode(), chunk_bytes=chunk_bytes), offset=-back))
    assert text.endswith(one.text)
    assert back - 4 < len(one.text.encode()) <= back or one.text == text
    assert one.next_offset - one.offset == len(one.text.encode())
    assert one.left_out == 0


@settings(deadline=None)
@given(st.binary(max_size=60), st.integers(4, 20), st.integers(1, 20))
def test_bytes_that_are_no_text_are_neither_lost_nor_repeated(data: bytes, bytes_max: int, chunk_bytes: int) -> None:
    printed = Printed(data, True, chunk_bytes)

    async def read() -> str:
        found, offset, has_more = "", 0, True
        while has_more:
            one = await piece(printed, offset=offset, bytes_max=bytes_max)
            found, offset, has_more = found + one.text, one.next_offset, one.has_more
        assert (one.at_end, offset) == (True, len(data))
        return found

    assert asyncio.run(read()) == data.decode("utf-8", "replace")


@pytest.mark.anyio
async def test_bytes_removed_from_the_middle_of_a_log_are_counted_and_skipped() -> None:
    printed = Printed(b"begin" + b"\0" * 1000 + b"\n[words]\nend", hole=range(5, 1005))
    before = await piece(printed)
    assert (before.text, before.offset, before.left_out, before.next_offset, before.has_more) == (
        "begin",
        0,
        0,
        5,
        True,
    )
    behind = await piece(printed, offset=before.next_offset, bytes_max=5)
    assert (behind.text, behind.offset, behind.left_out, behind.has_more) == ("\n[wor", 1005, 1000, True)
    rest = await piece(printed, offset=behind.next_offset)
    assert (rest.text, rest.left_out, rest.has_more, rest.at_end) == ("ds]\nend", 0, False, False)
    from_end = await piece(printed, offset=-len(printed.data), bytes_max=2000)
    assert (from_end.text, from_end.left_out, from_end.has_more) == ("begin\n[words]\nend", 1000, False)
    inside = await piece(printed, offset=500)
    assert (inside.text, inside.offset, inside.left_out) == ("\n[words]\nend", 1005, 505)


@settings(deadline=None)
@given(st.binary(max_size=40), st.integers(0, 40), st.integers(1, 100), st.integers(4, 20), st.integers(1, 20))
def test_reading_a_log_with_a_removed_part_reaches_its_end(
    data: bytes, at: int, hole: int, bytes_max: int, chunk_bytes: int
) -> None:
    at = min(at, len(data))
    printed = Printed(data[:at] + b"\0" * hole + data[at:], True, chunk_bytes, hole=range(at, at + hole))

    async def read() -> tuple[int, int]:
        left_out, offset, has_more = 0, 0, True
        while has_more:
            one = await piece(printed, offset=offset, bytes_max=bytes_max)
            assert one.next_offset > offset or not one.has_more
            assert not one.text or not one.left_out or one.offset >= at + hole, "no text from both sides"
            left_out, offset, has_more = left_out + one.left_out, one.next_offset, one.has_more
        assert one.at_end
        return left_out, offset

    assert asyncio.run(read()) == (hole, len(data) + hole)


@pytest.mark.anyio
async def test_a_piece_beyond_the_end_of_a_log_is_empty_without_waiting() -> None:
    for has_ended in (False, True):
        beyond = await piece(Printed(b"text", has_ended), offset=9)
        assert (beyond.text, beyond.next_offset, beyond.length, beyond.has_more) == ("", 9, 4, False)
        assert beyond.at_end is has_ended


@pytest.mark.anyio
async def test_an_agent_that_does_not_report_the_end_of_a_log_gives_an_error() -> None:
    with pytest.raises(Unavailable, match="older version"):
        await piece(Printed(b"text", has_ended=True, ends=False))


async def look(
    on: Stage, session_id: str, *, attempt: int | None = None, rank: int = 0, caller: Caller = CALLER
) -> SessionLogView:
    return await on.watching.session_log(caller, session_id, rank=rank, attempt=attempt, offset=0, bytes_max=1000)


@pytest.mark.anyio
async def test_log_pieces_of_a_session_before_during_and_after_its_run() -> None:
    async with stage([agent("a", devices=1)]) as on:
        first, second = await on.submit(), await on.submit()
        early = await look(on, first)
        assert (early.text, early.attempt, early.length, early.at_end) == ("", 0, 0, False)
        await on.advance()
        running = await look(on, first)
        assert (running.text, running.attempt) == (f"output of {first}.1.0\n", 1)
        assert (running.has_more, running.at_end) == (False, False)
        on.executor.end_kernel(KernelId(f"{first}.1.0"))
        await on.settle()
        assert (await look(on, first)).at_end
        await on.cancel(second)
        never = await look(on, second)
        assert (never.text, never.at_end) == ("", True)
        with pytest.raises(NotFound):
            await look(on, first, attempt=3)
        with pytest.raises(NotFound):
            await look(on, "ses_none")
        with pytest.raises(Forbidden):
            await look(on, first, caller=BOB)


@pytest.mark.anyio
async def test_a_requeued_session_shows_the_log_of_its_previous_attempt() -> None:
    async with stage([agent("a", devices=1)]) as on:
        first = await on.submit(max_retries=1, retries_own_failures=True)
        await on.advance()
        on.executor.end_kernel(KernelId(f"{first}.1.0"), code=1)
        await on.settle()
        waits = await look(on, first)
        assert (on.session(first).is_pending, waits.attempt, waits.at_end) == (True, 1, True)
        assert waits.text == f"output of {first}.1.0\n"
        assert (await look(on, first, attempt=2)).at_end is False


@pytest.mark.anyio
async def test_a_launch_that_was_refused_printed_nothing() -> None:
    async with stage([agent("a", devices=1)]) as on:
        refusal = KernelReport(kernel_id=KernelId(""), phase=KernelPhase.REFUSED, at_us=0)
        on.executor.agents[AgentId("a")].refuse = refusal
        first = await on.submit()
        await on.advance()
        refused = await look(on, first)
        assert (refused.text, refused.attempt, refused.at_end) == ("", 1, True)
