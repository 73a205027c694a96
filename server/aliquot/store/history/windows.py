"""Windows: samples that are not written yet, by series, until they make a block."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from aliquot.service.history.cluster_sums import ClusterSums
from aliquot.service.history.grids import Stretch
from aliquot.service.history.measures import WHOLE, Kind
from aliquot.service.history.samples import DeviceSample, QueueSample, Sample
from aliquot.store.history.tiers import SECOND_US, WINDOW_US, Tier

SAMPLES_MAX: Final = 300
"""In one block; more than that in a window are several."""
LATE_US: Final = 10_000_000
"""After its end a window is waited for so long."""


@dataclass(frozen=True, slots=True)
class SeriesKey:
    """What a series is of."""

    kind: Kind
    name: str
    devices: tuple[str, ...]

    def is_of(self, kind: Kind, name: str) -> bool:
        """Whether it is one of an agent's, or of the queue's."""
        return self.kind is kind and self.name == name


@dataclass(slots=True)
class Window:
    """Samples of one series, in their order."""

    end_us: int
    at_us: list[int] = field(default_factory=list)
    values: list[NDArray[np.float64]] = field(default_factory=list)
    """Devices x measures each."""

    def stretch(self, devices: tuple[str, ...]) -> Stretch:
        """All of it."""
        mean = np.stack(self.values).transpose(2, 1, 0)
        at_us = np.array(self.at_us, np.int64)
        return Stretch(devices=devices, at_us=at_us, counts=np.ones(len(at_us), np.int64), mean=mean, maximum=mean)


class Windows:
    """Of all series. Memory is bounded by `SAMPLES_MAX` of each, and by how many series there are."""

    def __init__(self) -> None:
        self._open: dict[SeriesKey, Window] = {}
        self._sums = ClusterSums()

    def take(self, sample: Sample) -> Iterator[tuple[SeriesKey, Stretch]]:
        """Keep a sample; yields what is whole by it."""
        if isinstance(sample, DeviceSample):
            self._sums.note(sample)
            key = SeriesKey(Kind.DEVICES, sample.roster.agent_id, sample.roster.device_ids)
            values = np.array(sample.values, dtype=np.float64)
        else:
            key = SeriesKey(Kind.QUEUE, "", (WHOLE,))
            values = np.array([_numbers(sample, self._sums)], dtype=np.float64)
        window = self._open.get(key)
        if window is not None and (sample.at_us >= window.end_us or len(window.at_us) >= SAMPLES_MAX):
            yield key, self._open.pop(key).stretch(key.devices)
            window = None
        if window is None:
            window = self._open[key] = Window(end_us=_end_us(key.name, sample.at_us))
        window.at_us.append(sample.at_us)
        window.values.append(values)

    def ended(self, now_us: int) -> Iterator[tuple[SeriesKey, Stretch]]:
        """Windows that nothing comes for any more."""
        for key in [key for key, window in self._open.items() if now_us >= window.end_us + LATE_US]:
            yield key, self._open.pop(key).stretch(key.devices)

    def all(self) -> Iterator[tuple[SeriesKey, Stretch]]:
        """Every window, whole or not."""
        for key in list(self._open):
            yield key, self._open.pop(key).stretch(key.devices)

    def peek(self, kind: Kind, name: str) -> Sequence[Stretch]:
        """What there is of an agent, or of the queue; it stays."""
        found = [(key, window) for key, window in self._open.items() if key.is_of(kind, name)]
        return [window.stretch(key.devices) for key, window in found]

    def __contains__(self, key: SeriesKey) -> bool:
        return key in self._open


def _end_us(name: str, at_us: int) -> int:
    """Each agent's windows end at times of their own, so that not all blocks are made at once."""
    size_us = WINDOW_US[Tier.RAW]
    shift_us = crc32(name.encode()) % (size_us // SECOND_US) * SECOND_US
    return ((at_us - shift_us) // size_us + 1) * size_us + shift_us


def _numbers(sample: QueueSample, sums: ClusterSums) -> tuple[float, ...]:
    """In the order of `QUEUE_MEASURES`."""
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
