"""Wall clocks that jump, and ids drawn by a seed."""

from random import Random

from simulation_loop import SeededLoop

EPOCH_US = 1_760_000_000_000_000
"""Start of every run: a day in 2025."""


class WallClock:
    """The machine's wall clock, which can be set."""

    def __init__(self, loop: SeededLoop) -> None:
        self._loop = loop
        self._offset_us = 0

    def now_us(self) -> int:
        """Never before 1970, whatever the clock is set to."""
        return max(0, EPOCH_US + self._offset_us) + round(self._loop.time() * 1e6)

    @property
    def is_years_off(self) -> bool:
        return abs(self._offset_us) > 365 * 86_400 * 1_000_000

    def jump(self, seconds: float) -> None:
        self._offset_us += round(seconds * 1e6)


class SeededIds:
    """Ids that sort by creation, like UUIDv7."""

    def __init__(self, random: Random, *, first: int) -> None:
        """Ids of a greater `first` sort later."""
        self._random = random
        self._count = first << 32

    def new(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count:012x}-{self._random.getrandbits(32):08x}"
