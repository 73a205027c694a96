"""The one place that reads the time, and the one that makes ids."""

import asyncio
import time
from collections.abc import Callable

import uuid_utils


class SystemClock:
    """Wall time that never goes back within a process, nor stands still, and monotonic time for measuring.

    While the wall clock is behind what was told already, after somebody set it back, time goes at half its speed.
    """

    def __init__(
        self, *, wall_ns: Callable[[], int] = time.time_ns, monotonic_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._wall_ns = wall_ns
        self._monotonic_ns = monotonic_ns
        self._last_us = 0
        self._seen_ns = monotonic_ns()

    def now_us(self) -> int:
        """Microseconds UTC."""
        steps = (self._monotonic_ns() - self._seen_ns) // 2000
        self._seen_ns += 2000 * steps
        self._last_us = max(self._last_us + steps, self._wall_ns() // 1000)
        return self._last_us

    def wall_us(self) -> int:
        """What the clock on the wall says, microseconds UTC: after somebody set it back, it is behind `now_us`."""
        return self._wall_ns() // 1000

    def not_before(self, at_us: int) -> None:
        """Never tell a time before this one: what an earlier process wrote down, before the wall clock was set back."""
        self._last_us = max(self._last_us, at_us)

    def monotonic(self) -> float:
        """Seconds from some start."""
        return self._monotonic_ns() / 1e9

    async def sleep(self, seconds: float) -> None:
        """Let others run for a while."""
        await asyncio.sleep(seconds)


class RandomIds:
    """UUIDv7 behind a prefix: later ones sort after earlier ones of this process."""

    def new(self, prefix: str) -> str:
        """`<prefix><uuid7>`, hexadecimal with dashes."""
        return f"{prefix}{uuid_utils.uuid7()}"
