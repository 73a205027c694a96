"""Endings: those who hold something, by the time at which they are reckoned to have given it back."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from aliquot.core.snapshot import RunningRow


class Ends:
    """Rows by their guards' ends, in columns: the same at any time."""

    def __init__(self, running: Iterable[RunningRow]) -> None:
        self.rows: Final = tuple(running)
        ends_us = np.fromiter((row.ends_us for row in self.rows), dtype=np.int64, count=len(self.rows))
        milli = np.fromiter((row.milli for row in self.rows), dtype=np.int64, count=len(self.rows))
        self.order: Final = np.argsort(ends_us, kind="stable")
        self.ends_us: Final = ends_us[self.order]
        self.gone_milli: Final = np.cumsum(milli[self.order])
        """What each of them and all before it hold of accelerators."""


class Endings:
    """Steps in time; everybody who ends at one moment is gone together."""

    def __init__(self, ends: Ends, *, now_us: int) -> None:
        """Whoever is overdue ends now."""
        times = np.maximum(ends.ends_us, now_us)
        last = np.flatnonzero(np.diff(times, append=np.iinfo(np.int64).max))
        self._ends: Final = ends
        self._last: Final = last
        """[steps] the place of the last one who ends then."""
        self._times_us: Final = times[last]
        self._gone_milli: Final = ends.gone_milli[last]

    def __len__(self) -> int:
        return len(self._last)

    def at_us(self, step: int) -> int:
        """When a step is."""
        return int(self._times_us[step])

    def gone(self, step: int) -> list[RunningRow]:
        """Everybody who is gone after a step."""
        return [self._ends.rows[number] for number in self._ends.order[: self._last[step] + 1].tolist()]

    def first(self, milli: int) -> int:
        """The first step after which so much of accelerators was given back, in sum; beyond the last if none is."""
        return int(np.searchsorted(self._gone_milli, milli))
