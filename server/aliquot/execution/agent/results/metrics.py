"""Metrics of a kernel: read from its output when they are asked for, and thinned out.

What was read is kept in `metrics.json` of the kernel's folder, so that the next request goes on from there. All
functions block on disk I/O.
"""

import hashlib
import os
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Final

import msgspec

from aliquot.execution.agent.agent_folder import KernelFolder
from aliquot.execution.agent.job_user import WORK, open_job_file
from aliquot.execution.agent.json_files import FORMAT, read_file, replace_file
from aliquot_schema.errors import NotFound
from aliquot_schema.metrics import (
    METRICS_MAX,
    NUMBER,
    POINTS_MAX,
    PREFIX,
    STEP,
    MetricPattern,
    MetricReport,
    MetricSeries,
    expression,
    is_metric_name,
)

READ_BYTES_MAX: Final = 64 * 2**20
"""Output read by one request."""
READ_S_MAX: Final = 5.0
"""Time for one request; the next one goes on."""
BLOCK_BYTES: Final = 2**20
LINE_CHARS_MAX: Final = 4096
"""The rest of a longer line is not looked at."""
_FILE: Final = "metrics.json"
_PAIR: Final = re.compile(rf"([^\s=]{{1,64}})=({NUMBER})(?=\s|$)")
_STEP_MAX: Final = 2**63 - 1


@dataclass(slots=True)
class ThinnedSeries:
    """A series that keeps every 2^n-th point: more of them never need more room."""

    name: str
    count: int = 0
    stride: int = 1
    last: float = 0.0
    last_step: int = 0
    low: float = 0.0
    low_step: int = 0
    high: float = 0.0
    high_step: int = 0
    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, value: float, step: int | None) -> None:
        """Add a point."""
        at = self.count if step is None else step
        if self.count == 0 or value < self.low:
            self.low, self.low_step = value, at
        if self.count == 0 or value > self.high:
            self.high, self.high_step = value, at
        if self.count % self.stride == 0:
            if len(self.steps) >= POINTS_MAX - 1:
                self.steps, self.values, self.stride = self.steps[::2], self.values[::2], self.stride * 2
            if self.count % self.stride == 0:
                self.steps.append(at)
                self.values.append(value)
        self.last, self.last_step = value, at
        self.count += 1

    def series(self) -> MetricSeries:
        """What is kept, with the newest point at the end."""
        is_kept = (self.count - 1) % self.stride == 0
        return MetricSeries(
            name=self.name,
            count=self.count,
            last=self.last,
            low=self.low,
            low_step=self.low_step,
            high=self.high,
            high_step=self.high_step,
            steps=(*self.steps, *(() if is_kept else (self.last_step,))),
            values=(*self.values, *(() if is_kept else (self.last,))),
        )


class LineReader:
    """Finds metrics in lines."""

    def __init__(self, patterns: tuple[MetricPattern, ...], known: dict[str, ThinnedSeries]) -> None:
        self._patterns = [(one.name, expression(one.pattern)) for one in patterns]
        self.known = known

    def read(self, line: str) -> None:
        """Add the points of a line."""
        line = line[:LINE_CHARS_MAX]
        if line.startswith(PREFIX):
            pairs = _PAIR.findall(line, len(PREFIX))
            step = next((_step(value) for name, value in pairs if name == STEP), None)
            for name, value in pairs:
                if is_metric_name(name):
                    self._add(name, value, step)
            return
        for name, wanted in self._patterns:
            found = wanted.search(line)
            if found is not None:
                self._add(name, found["value"], _step(found.groupdict().get("step")))

    def _add(self, name: str, text: str, step: int | None) -> None:
        value = float(text)
        if not isfinite(value):
            return
        series = self.known.get(name)
        if series is None:
            if len(self.known) >= METRICS_MAX:
                return
            series = self.known[name] = ThinnedSeries(name)
        series.add(value, step)


def metrics_of(folder: KernelFolder, patterns: tuple[MetricPattern, ...]) -> MetricReport:
    """The metrics of a kernel's output so far.

    Raises:
        NotFound: it has no output here.
    """
    key = hashlib.sha256(msgspec.json.encode(patterns)).hexdigest()
    offset, known = _restored(folder.path / _FILE, key)
    reader = LineReader(patterns, known)
    try:
        file = open_job_file(folder.output, os.O_RDONLY, beside=folder.path / WORK)
    except OSError:
        raise NotFound(f"kernel {folder.kernel_id} has no output", kind="log", id=folder.kernel_id) from None
    try:
        end = min(os.fstat(file).st_size, offset + READ_BYTES_MAX)
        is_partial = end < os.fstat(file).st_size
        is_over = folder.exit.exists()
        begun, until = offset, time.monotonic() + READ_S_MAX
        for line, after in _lines(file, offset, end, is_over=is_over and not is_partial):
            reader.read(line)
            offset = after
            if time.monotonic() >= until:
                is_partial = True
                break
    finally:
        os.close(file)
    if offset > begun:
        fields = {"format": FORMAT, "key": key, "offset": offset, "series": [asdict(one) for one in known.values()]}
        replace_file(folder.path / _FILE, fields)
    found = sorted(known.values(), key=lambda one: one.name)
    return MetricReport(series=tuple(one.series() for one in found), is_partial=is_partial)


def _lines(file: int, offset: int, end: int, *, is_over: bool) -> Iterator[tuple[str, int]]:
    """(line, offset behind it); an unfinished line at the end only once no more follows, or if it is very long."""
    held = b""
    while offset < end and (data := os.pread(file, min(BLOCK_BYTES, end - offset), offset)):
        offset += len(data)
        *lines, rest = (held + data).split(b"\n")
        at = offset - len(rest) - sum(len(line) + 1 for line in lines)
        for line in lines:
            at += len(line) + 1
            yield line.strip(b"\0\r").decode(errors="replace"), at
        held = rest
        if len(held) > BLOCK_BYTES:
            held = b""
            yield "", offset
    if held and is_over:
        yield held.strip(b"\0\r").decode(errors="replace"), offset


def _restored(path: Path, key: str) -> tuple[int, dict[str, ThinnedSeries]]:
    """(offset, series by name) of the last request; from the beginning if the file is missing or of other patterns."""
    try:
        found: dict[str, Any] | None = read_file(path)
        if found is None or found["key"] != key:
            return 0, {}
        series = [msgspec.convert(one, ThinnedSeries) for one in found["series"]]
        return int(found["offset"]), {one.name: one for one in series}
    except (OSError, ValueError, KeyError, TypeError):
        return 0, {}


def _step(text: str | None) -> int | None:
    """A step as a number; None if it is none."""
    if text is None or not text.isdecimal():
        return None
    return min(int(text), _STEP_MAX)
