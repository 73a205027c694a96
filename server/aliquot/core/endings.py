"""Endings: those who hold something, by the time at which they are reckoned to have given it back."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from aliquot.core.snapshot import RunningRow


class Endings:
    """Steps in time; everybody who ends at one moment is gone together."""

    def __init__(self, running: Iterable[RunningRow], *, now_us: int) -> None:
        """Whoever is overdue ends now."""
        rows = tuple(running)
        ends_us = np.fromiter((row.ends_us for row in rows), dtype=np.int64, count=len(rows))
        milli = np.fromiter((row.milli for row in rows), dtype=np.int64, count=len(rows))
        order = np.argsort(ends_us, kind="stable")
        times = np.maximum(ends_us[order], now_us)
        last = np.flatnonzero(np.diff(times, append=np.iinfo(np.int64).max))
        self._rows: Final = rows
        self._order: Final = order
        self._counts: Final = last + 1
        """[steps] how many are gone after each step."""
        self._times_us: Final = times[last]
        self._gone_milli: Final = np.cumsum(milli[order])[last]

    def __len__(self) -> int:
        return len(self._counts)

    def at_us(self, step: int) -> int:
        """When a step is."""
        return int(self._times_us[step])

    def gone(self, step: int) -> list[RunningRow]:
        """Everybody who is gone after a step."""
        return [self._rows[number] for number in self._order[: self._counts[step]].tolist()]

    def first(self, milli: int) -> int:
        """The first step after which so much of accelerators was given back, in sum; beyond the last if none is."""
        return int(np.searchsorted(self._gone_milli, milli))
