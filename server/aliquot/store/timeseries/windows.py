"""Sample windows: samples of each series in memory until they form a block."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from aliquot.service.history.grids import GridSpan
from aliquot.service.history.measures import WHOLE, DeviceSample, MeasureKind, QueueSample, Sample
from aliquot.service.history.usage import ClusterSums
from aliquot.store.timeseries.tiers import SECOND_US, WINDOW_US, Tier

SAMPLES_MAX: Final = 300
"""Samples per block; a window with more becomes several blocks."""
LATE_US: Final = 10_000_000
"""Time after its end for which a window accepts late samples."""


class SeriesKey(Struct, frozen=True):
    """Identity of a series: an agent with its devices, or the queue."""

    kind: MeasureKind
    name: str
    devices: tuple[str, ...]

    def matches(self, kind: MeasureKind, name: str) -> bool:
        """Whether a series belongs to an agent, or to the queue."""
        return self.kind is kind and self.name == name


@dataclass(slots=True)
class Window:
    """Samples of one series, in order."""

    end_us: int
    at_us: list[int] = field(default_factory=list)
    values: list[NDArray[np.float64]] = field(default_factory=list)
    """One array of devices x measures per sample."""

    def span(self, devices: tuple[str, ...]) -> GridSpan:
        """All samples of the window."""
        mean = np.stack(self.values).transpose(2, 1, 0)
        at_us = np.array(self.at_us, np.int64)
        return GridSpan(devices=devices, at_us=at_us, counts=np.ones(len(at_us), np.int64), mean=mean, maximum=mean)


class Windows:
    """The open window of each series, each of at most `SAMPLES_MAX` samples."""

    def __init__(self) -> None:
        self._open: dict[SeriesKey, Window] = {}
        self._sums = ClusterSums()

    def take(self, sample: Sample) -> Iterator[tuple[SeriesKey, GridSpan]]:
        """Add a sample; yields the window that it completes."""
        if isinstance(sample, DeviceSample):
            self._sums.note(sample)
            key = SeriesKey(MeasureKind.DEVICES, sample.roster.agent_id, sample.roster.device_ids)
            values = np.array(sample.values, dtype=np.float64)
        else:
            key = SeriesKey(MeasureKind.QUEUE, "", (WHOLE,))
            values = np.array([_numbers(sample, self._sums)], dtype=np.float64)
        window = self._open.get(key)
        if window is not None and (sample.at_us >= window.end_us or len(window.at_us) >= SAMPLES_MAX):
            yield key, self._open.pop(key).span(key.devices)
            window = None
        if window is None:
            window = self._open[key] = Window(end_us=_end_us(key.name, sample.at_us))
        window.at_us.append(sample.at_us)
        window.values.append(values)

    def ended(self, now_us: int) -> Iterator[tuple[SeriesKey, GridSpan]]:
        """Remove and yield windows that accept no more samples."""
        for key in [key for key, window in self._open.items() if now_us >= window.end_us + LATE_US]:
            yield key, self._open.pop(key).span(key.devices)

    def all(self) -> Iterator[tuple[SeriesKey, GridSpan]]:
        """Remove and yield every window, complete or not."""
        for key in list(self._open):
            yield key, self._open.pop(key).span(key.devices)

    def buffered(self, kind: MeasureKind, name: str) -> Sequence[GridSpan]:
        """Samples of an agent, or of the queue; they stay in their windows."""
        found = [(key, window) for key, window in self._open.items() if key.matches(kind, name)]
        return [window.span(key.devices) for key, window in found]

    def __contains__(self, key: SeriesKey) -> bool:
        return key in self._open


def _end_us(name: str, at_us: int) -> int:
    """End of a window. It is shifted per agent, which spreads the writing of blocks over time."""
    size_us = WINDOW_US[Tier.RAW]
    shift_us = crc32(name.encode()) % (size_us // SECOND_US) * SECOND_US
    return ((at_us - shift_us) // size_us + 1) * size_us + shift_us


def _numbers(sample: QueueSample, sums: ClusterSums) -> tuple[float, ...]:
    """Values in the order of `QUEUE_MEASURES`."""
    gpus = sums.at(sample.at_us)
    return (
        sample.pending,
        sample.running,
        sample.submitted,
        sample.started,
        sample.ended,
        sample.waited_s,
        gpus.total,
        gpus.held,
        gpus.held_idle,
    )
