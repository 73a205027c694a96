"""System clock and id generator: the only places that read the time and make random ids."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # commands of the shell read the time too, and start without these
    from aliquot_schema.events import Event

LEAP_US: Final = 60_000_000
"""The wall clock is followed while it differs by at most this much, in microseconds."""


def boottime_ns() -> int:
    """Nanoseconds since the machine booted, time in suspension included. Setting the wall clock does not change it."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class SystemClock:
    """Wall time that advances steadily within a process, and monotonic time for measuring.

    After the wall clock was set back by up to a minute, `now_us` advances at half speed until the wall clock has caught
    up. A wall clock that was set by more than a minute is not followed: `now_us` goes on by CLOCK_BOOTTIME until
    `correct` is called, which the leader does with an event.
    """

    def __init__(
        self, *, wall_ns: Callable[[], int] = time.time_ns, monotonic_ns: Callable[[], int] = boottime_ns
    ) -> None:
        self._wall_ns = wall_ns
        self._monotonic_ns = monotonic_ns
        self._last_us = wall_ns() // 1000
        self._seen_ns = monotonic_ns()

    def now_us(self) -> int:
        """Microseconds UTC."""
        wall_us, elapsed_ns = self._wall_ns() // 1000, self._monotonic_ns() - self._seen_ns
        if abs(wall_us - self._last_us - elapsed_ns // 1000) > LEAP_US:
            self._advance(elapsed_ns // 1000, unit_ns=1000)
        else:
            self._advance(elapsed_ns // 2000, unit_ns=2000)
            self._last_us = max(self._last_us, wall_us)
        return self._last_us

    def wall_us(self) -> int:
        """Wall-clock time, microseconds UTC; differs from `now_us` after the clock was set."""
        return self._wall_ns() // 1000

    def leap_us(self) -> int:
        """How far the wall clock is ahead of `now_us`, negative if behind; 0 when they agree to within a minute."""
        ahead_us = self.wall_us() - self.now_us()
        return ahead_us if abs(ahead_us) > LEAP_US else 0

    def not_before(self, at_us: int) -> None:
        """Never return a time before this one, which another process recorded, unless it is over a minute ahead."""
        if at_us - self.now_us() <= LEAP_US:
            self._last_us = max(self._last_us, at_us)

    def correct(self, at_us: int) -> None:
        """Continue from this time, earlier or later: a correction of the clock was committed."""
        self._last_us, self._seen_ns = at_us, self._monotonic_ns()

    def follow(self, event: "Event") -> None:
        """Never return a time before that of a known event. Clocks of servers differ, and what follows from an event is
        never dated before it."""
        self.not_before(event.at_us)

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, time in suspension included."""
        return self._monotonic_ns() / 1e9

    async def sleep(self, seconds: float) -> None:
        """Suspend the task for some seconds."""
        import asyncio

        await asyncio.sleep(seconds)

    def _advance(self, steps: int, *, unit_ns: int) -> None:
        self._last_us += steps
        self._seen_ns += unit_ns * steps


class RandomIds:
    """UUIDv7 behind a prefix; within a process, later ids sort after earlier ones."""

    def __init__(self) -> None:
        import uuid_utils

        self._uuid7 = uuid_utils.uuid7

    def new(self, prefix: str) -> str:
        """`<prefix><uuid7>`, hexadecimal with dashes."""
        return f"{prefix}{self._uuid7()}"
