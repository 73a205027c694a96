"""Token buckets: how fast somebody may go, with a reserve for bursts. In memory: each server counts for itself.

Source: Turner, New directions in communications (or which way to the information age?), 1986: the leaky bucket as a
meter.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

KEPT: Final = 10_000
"""Buckets; above that, those that are full are forgotten, which changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """So much in a minute, and as much of it at once as a whole minute's."""

    per_minute: int
    """At least 1; what is taken at once may be more, and is waited for afterwards."""


class Buckets:
    """One bucket for each name.

    Args:
        monotonic: seconds from some start.
    """

    def __init__(self, rate: Rate, *, monotonic: Callable[[], float]) -> None:
        self._rate = rate
        self._monotonic = monotonic
        self._levels: dict[str, tuple[float, float]] = {}
        """(level, when it was so); what is missing is full."""

    def take(self, name: str, amount: int) -> float:
        """Take out of a bucket.

        Returns:
            0 when it was taken; else the seconds after which it can be, and nothing was taken.
        """
        now, most = self._monotonic(), self._rate.per_minute
        level = self._level(name, now)
        # What is larger than a whole bucket is let through from a full one, which owes the rest.
        missing = min(amount, most) - level
        if missing > 0:
            return missing * 60 / most
        self._levels[name] = level - amount, now
        if len(self._levels) > KEPT:
            self._levels = {known: at for known, at in self._levels.items() if self._level(known, now) < most}
        return 0.0

    def _level(self, name: str, now: float) -> float:
        level, at = self._levels.get(name, (float(self._rate.per_minute), now))
        return min(self._rate.per_minute, level + (now - at) * self._rate.per_minute / 60)
