"""Use trend: how the utilization of a held GPU develops, to find use that has dropped and GPUs far behind their twins.

Readings are averaged over five minutes, so that checkpoints, evaluations and other dips of some minutes are not seen at
all. Time without readings is left out; after a long gap the trend begins anew.
"""

from collections.abc import Mapping
from itertools import groupby
from statistics import median
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

Key = TypeVar("Key")

SECOND_US: Final = 1_000_000
BUCKET_US: Final = 300 * SECOND_US
FORGET_US: Final = 900 * SECOND_US
"""After a gap longer than this, what was before is forgotten."""
BUCKETS_MAX: Final = 48
"""Averages kept: four hours."""
BUCKETS_MIN: Final = 24
"""Averages that show a steady use: two hours."""
STEADY_PCT_MIN: Final = 20.0
"""Mean utilization of a steady use, 0 to 100, at least: below it, nearly nothing is often all that a job does."""
STEADY_PART: Final = 0.8
"""Part of the averages of a steady use that are above `LOW_PART`."""
LOW_PART: Final = 0.05
"""An average up to this part of the mean before it is nearly nothing, 0 to 1."""
LULL_FACTOR: Final = 3
"""Use that was nearly nothing for a while before has dropped only after this many times the longest such while."""
TWIN_BUCKETS: Final = 6
"""Averages that twins are compared by: half an hour."""
TWIN_PCT_MIN: Final = 30.0
"""Median utilization of the twins, 0 to 100, at least."""
TWIN_SPREAD: Final = 0.25
"""Twins are alike if three quarters of them lie within this part of their median."""


class UseTrend(Struct, frozen=True, kw_only=True):
    """Averages of the utilization of a device since it was granted. Begin with `UseTrend()`."""

    averages: tuple[float, ...] = ()
    """The last `BUCKETS_MAX` averages before the use was nearly nothing, 0 to 100; the newest is the last."""
    low: tuple[float, ...] = ()
    """Those since then, at most as many."""
    low_us: int = 0
    """Measured time since then."""
    began_us: int | None = None
    """Begin of the current average."""
    last_us: int | None = None
    """The last reading that says something."""
    total_pct: float = 0.0
    count: int = 0

    def after(self, at_us: int, utilization_pct: float | None) -> "UseTrend":
        """The trend after one more reading. Readings that are older than the last one, or say nothing, are skipped.

        Args:
            utilization_pct: 0 to 100; None = not measured.
        """
        if utilization_pct is None or (self.last_us is not None and at_us <= self.last_us):
            return self
        if self.last_us is None or self.began_us is None or at_us - self.last_us > FORGET_US:
            return UseTrend(began_us=at_us, last_us=at_us, total_pct=utilization_pct, count=1)
        if at_us - self.began_us < BUCKET_US:
            return replace(self, last_us=at_us, total_pct=self.total_pct + utilization_pct, count=self.count + 1)
        ended = self._with(self.total_pct / self.count)
        return replace(ended, began_us=at_us, last_us=at_us, total_pct=utilization_pct, count=1)

    @property
    def steady_pct(self) -> float | None:
        """Mean utilization before it was nearly nothing, 0 to 100; None = it was not steady, or not for two hours."""
        if len(self.averages) < BUCKETS_MIN:
            return None
        mean = sum(self.averages) / len(self.averages)
        used = sum(one > LOW_PART * mean for one in self.averages)
        return mean if mean >= STEADY_PCT_MIN and used >= STEADY_PART * len(self.averages) else None

    @property
    def recent_pct(self) -> float | None:
        """Mean utilization of the last half hour, 0 to 100; None = less was measured, not counting the first half hour,
        in which a program may load its data."""
        known = self.averages + self.low
        return None if len(known) < 2 * TWIN_BUCKETS else sum(known[-TWIN_BUCKETS:]) / TWIN_BUCKETS

    def is_dropped(self, limit_us: int) -> bool:
        """Whether a steady use has been nearly nothing for the limit, and far longer than ever before."""
        mean = self.steady_pct
        if mean is None or self.low_us < limit_us:
            return False
        lulls = (len(list(run)) for is_low, run in groupby(one <= LOW_PART * mean for one in self.averages) if is_low)
        return self.low_us >= LULL_FACTOR * max(lulls, default=0) * BUCKET_US

    def _with(self, average: float) -> "UseTrend":
        """The trend with one more average."""
        mean = sum(self.averages) / len(self.averages) if self.averages else 0.0
        if self.averages and average <= LOW_PART * mean:
            return replace(self, low=(*self.low, average)[-BUCKETS_MAX:], low_us=self.low_us + BUCKET_US)
        return replace(self, averages=(*self.averages, *self.low, average)[-BUCKETS_MAX:], low=(), low_us=0)


def behind_twins(recent_pct: Mapping[Key, float], *, pct: int, twins_min: int) -> dict[Key, float]:
    """Those of a group that are far less used than the others, each with the median of the others.

    Nothing is reported where the others differ among themselves: then they do not do the same work.

    Args:
        recent_pct: mean utilization of each of the group, 0 to 100.
        pct: below this part of the median of the others, in percent.
        twins_min: size of a group, at least.
    """
    found = {}
    for key, own in recent_pct.items() if len(recent_pct) >= max(twins_min, 2) else ():
        others = [value for other, value in recent_pct.items() if other != key]
        middle = median(others)
        alike = sum(abs(value - middle) <= TWIN_SPREAD * middle for value in others)
        if middle >= TWIN_PCT_MIN and own * 100 < pct * middle and alike * 4 >= 3 * len(others):
            found[key] = middle
    return found
