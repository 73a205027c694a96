"""System clock and id generator: the only places that read the time and make random ids."""

import asyncio
import time
from collections.abc import Callable

import uuid_utils

from aliquot_schema.events import Event


class SystemClock:
    """Wall time that strictly advances within a process, and monotonic time for measuring.

    After the wall clock was set back, `now_us` advances at half speed until the wall clock has caught up.
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
        """Wall-clock time, microseconds UTC; behind `now_us` after the clock was set back."""
        return self._wall_ns() // 1000

    def not_before(self, at_us: int) -> None:
        """Never return a time before this one, which an earlier process recorded before the clock was set back."""
        self._last_us = max(self._last_us, at_us)

    def follow(self, event: Event) -> None:
        """Never return a time before that of a known event. Clocks of servers differ, and what follows from an event is
        never dated before it."""
        self.not_before(event.at_us)

    def monotonic(self) -> float:
        """Seconds from an arbitrary start."""
        return self._monotonic_ns() / 1e9

    async def sleep(self, seconds: float) -> None:
        """Suspend the task for some seconds."""
        await asyncio.sleep(seconds)


class RandomIds:
    """UUIDv7 behind a prefix; within a process, later ids sort after earlier ones."""

    def new(self, prefix: str) -> str:
        """`<prefix><uuid7>`, hexadecimal with dashes."""
        return f"{prefix}{uuid_utils.uuid7()}"
