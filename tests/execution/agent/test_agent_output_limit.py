"""A job that writes far more than the output limit: its beginning and end are kept, at their offsets."""

import errno
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_harness import AgentHarness, agent_config, new_kernel, shell, wait_until
from aliquot.execution.agent.logs import OutputLimit, gap_line, truncate_middle
from aliquot.execution.settings import DiskRules
from aliquot_schema.cluster.launching import LogChunk
from aliquot_schema.ids import KernelId

pytestmark = pytest.mark.anyio

MOST = 2**20
LINES = 1_000_000
LINE_BYTES = 16
WRITE = f"awk 'BEGIN {{ for (i = 0; i < {LINES}; i++) printf \"%015d\\n\", i }}'"
"""Each line holds its own offset: 16 bytes a line."""


@pytest.fixture
async def harness(agent_home: Path) -> AsyncIterator[AgentHarness]:
    opened = AgentHarness(agent_config(agent_home, disk=DiskRules(output_bytes_max=MOST)))
    await opened.open()
    yield opened
    await opened.close()


def on_disk(path: Path) -> int:
    return path.stat().st_blocks * 512


def lines(first: int, count: int) -> bytes:
    """The bytes written at an offset."""
    number = first // LINE_BYTES
    text = b"".join(b"%015d\n" % i for i in range(number, number + count // LINE_BYTES + 2))
    return text[first % LINE_BYTES :][:count]


def check(chunks: list[LogChunk]) -> int:
    """Every byte is the one written at its offset, except for the line with the omitted size."""
    position, left_out = 0, 0
    for chunk in chunks:
        data, offset = chunk.data, chunk.offset
        assert offset >= position
        if offset > position:
            words = re.match(rb"\n\[aliquot: (\d+) bytes are cut out here; [^\n]*\]\n", data)
            assert words is not None, data[:100]
            assert int(words[1]) == offset + len(words[0]) - position
            left_out += int(words[1])
            data, offset = data[len(words[0]) :], offset + len(words[0])
        assert data == lines(offset, len(data))
        position = chunk.offset + len(chunk.data)
    return left_out


async def read(harness: AgentHarness, kernel: KernelId, *, offset: int = 0) -> list[LogChunk]:
    return [chunk async for chunk in harness.core.follow_log(kernel, offset=offset)]


def test_a_short_output_is_not_reported_when_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    output = tmp_path / "output.log"
    output.write_text("short")

    def refuse(*_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("aliquot.execution.agent.logs.os.open", refuse)
    OutputLimit(MOST).apply(output)
    assert not caplog.records


async def test_a_long_output_keeps_its_beginning_and_its_end(harness: AgentHarness) -> None:
    asked = shell(f"{WRITE}; while ! [ -e go ]; do sleep 0.05; done; echo the end")
    await harness.core.launch([asked])
    output = harness.folder(asked.kernel_id) / "output.log"
    await wait_until(
        lambda: output.exists() and output.stat().st_size == LINES * LINE_BYTES and on_disk(output) <= MOST
    )
    (harness.folder(asked.kernel_id) / "work" / "go").touch()
    await harness.wait_for_end(asked.kernel_id)
    chunks = await read(harness, asked.kernel_id)
    last = chunks[-1]
    assert last.at_end
    assert last.data.endswith(b"the end\n")
    assert last.offset + len(last.data) == LINES * LINE_BYTES + len("the end\n")
    cut = [*chunks[:-1], LogChunk(offset=last.offset, data=last.data[: -len("the end\n")], at_end=True)]
    assert check(cut) > LINES * LINE_BYTES - MOST
    in_the_hole = await read(harness, asked.kernel_id, offset=LINES * LINE_BYTES // 2)
    assert in_the_hole[0].offset > LINES * LINE_BYTES // 2
    assert in_the_hole[0].data.startswith(b"\n[aliquot: ")


async def test_a_reader_that_follows_a_cut_output_gets_the_right_offsets(harness: AgentHarness) -> None:
    asked = shell(WRITE)
    await harness.core.launch([asked])
    chunks = await read(harness, asked.kernel_id)
    position = 0
    for chunk in chunks:
        assert chunk.offset >= position
        if b"[aliquot: " not in chunk.data:
            assert chunk.data == lines(chunk.offset, len(chunk.data))
        position = chunk.offset + len(chunk.data)
    assert position == LINES * LINE_BYTES


async def test_an_output_that_ended_between_two_checks_is_cut_too(agent_home: Path) -> None:
    harness = AgentHarness(agent_config(agent_home, disk=DiskRules(output_bytes_max=MOST), readings_interval_s=3600.0))
    await harness.open()
    try:
        asked = shell(WRITE)
        await harness.run(asked)
        output = harness.folder(asked.kernel_id) / "output.log"
        assert on_disk(output) > MOST
        await harness.core.forget([asked.kernel_id])
        assert on_disk(output) <= MOST
        check(await read(harness, asked.kernel_id))
    finally:
        await harness.close()


def test_a_short_output_is_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"x" * MOST)
    before = path.read_bytes()
    assert truncate_middle(path, bytes_max=2 * MOST) == 0
    assert path.read_bytes() == before
    assert truncate_middle(tmp_path / str(new_kernel()), bytes_max=MOST) == 0


def test_the_gap_line_always_has_the_same_length() -> None:
    assert len(gap_line(0, bytes_max=MOST)) == len(gap_line(10**18, bytes_max=MOST))
