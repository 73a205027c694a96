"""The one place that reads the time, and the one that makes ids."""

import asyncio
import time

import uuid_utils


class SystemClock:
    """Wall time that never goes back within a process, and monotonic time for measuring."""

    def __init__(self) -> None:
        self._last_us = 0

    def now_us(self) -> int:
        """Microseconds UTC."""
        self._last_us = max(self._last_us, time.time_ns() // 1000)
        return self._last_us

    def not_before(self, at_us: int) -> None:
        """Never tell a time before this one: what an earlier process wrote down, before the wall clock was set back."""
        self._last_us = max(self._last_us, at_us)

    def monotonic(self) -> float:
        """Seconds from some start."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Let others run for a while."""
        await asyncio.sleep(seconds)


class RandomIds:
    """UUIDv7 behind a prefix: later ones sort after earlier ones of this process."""

    def new(self, prefix: str) -> str:
        """`<prefix><uuid7>`, hexadecimal with dashes."""
        return f"{prefix}{uuid_utils.uuid7()}"
