"""Idle detector: how long a held device has measurably not been used.

A device is used while its utilization is above zero, its memory is being filled or emptied, or its holder's processes
use the CPU or do I/O. Time counts as idle only between two readings that both show no use and lie close together; time
without readings counts as nothing, and after a long gap the detector starts anew, since the device may have been used
meanwhile.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

SECOND_US: Final = 1_000_000


class IdleRule(Struct, frozen=True, kw_only=True):
    """What counts as idle."""

    limit_us: int = 1_800 * SECOND_US
    """A device that was idle for this long is reported."""
    utilization_pct_max: float = 0.0
    """Utilization up to this counts as no use, 0 to 100."""
    memory_change: float = 0.05
    """Memory that changes by more than this part of the device's memory between two readings is use, 0 to 1."""
    cpu_max: float = 0.05
    """CPU time of the holder's processes up to this many cores counts as no use."""
    io_bytes_per_s_max: float = 1_000_000.0
    """I/O of the holder's processes up to this counts as no use."""
    bridge_us: int = 180 * SECOND_US
    """Two idle readings at most this far apart are taken to have nothing between them."""
    forget_us: int = 900 * SECOND_US
    """After a gap longer than this, earlier idle time is forgotten."""

    def __post_init__(self) -> None:
        assert 0 < self.bridge_us <= self.forget_us
        assert self.limit_us > 0


class UseReading(Struct, frozen=True, kw_only=True):
    """What was measured of a held device and its holder at one moment. None = not measured."""

    at_us: int
    utilization_pct: float | None
    """0 to 100. Without it the reading says nothing."""
    memory_bytes: int | None = None
    memory_bytes_total: int = 0
    """0 = unknown: then changes of memory are not looked at."""
    cpu_cores: float | None = None
    """Of the holder's processes since the previous reading, in cores."""
    io_bytes_per_s: float | None = None
    """Of the holder's processes since the previous reading."""


class IdleState(Struct, frozen=True, kw_only=True):
    """The detector's memory of one holder of one device. Begin with `IdleState()` at each grant."""

    idle_us: int = 0
    """Measured idle time since the last use."""
    idle_since_us: int | None = None
    """The first reading of this idle spell."""
    was_used: bool = False
    """Whether the device was used since it was granted: an idle spell before the first use is a slow start, or a
    session that never started to work."""
    last_us: int | None = None
    """The last reading that says something."""
    last_memory_bytes: int | None = None

    def after(self, reading: UseReading, rule: IdleRule) -> "IdleState":
        """The state after one more reading. Readings that are older than the last one, or say nothing, are skipped."""
        if reading.utilization_pct is None or (self.last_us is not None and reading.at_us < self.last_us):
            return self
        memory = self.last_memory_bytes if reading.memory_bytes is None else reading.memory_bytes
        if self._is_use(reading, rule):
            return IdleState(was_used=True, last_us=reading.at_us, last_memory_bytes=memory)
        gap_us = 0 if self.last_us is None else reading.at_us - self.last_us
        if self.idle_since_us is None or gap_us > rule.forget_us:
            return replace(
                self, idle_us=0, idle_since_us=reading.at_us, last_us=reading.at_us, last_memory_bytes=memory
            )
        counted_us = gap_us if gap_us <= rule.bridge_us else 0
        return replace(self, idle_us=self.idle_us + counted_us, last_us=reading.at_us, last_memory_bytes=memory)

    def is_idle(self, rule: IdleRule) -> bool:
        """Whether the device was idle for as long as the limit."""
        return self.idle_us >= rule.limit_us

    def _is_use(self, reading: UseReading, rule: IdleRule) -> bool:
        assert reading.utilization_pct is not None
        if reading.utilization_pct > rule.utilization_pct_max:
            return True
        if (reading.cpu_cores or 0.0) > rule.cpu_max or (reading.io_bytes_per_s or 0.0) > rule.io_bytes_per_s_max:
            return True
        if reading.memory_bytes is None or self.last_memory_bytes is None or not reading.memory_bytes_total:
            return False
        change = abs(reading.memory_bytes - self.last_memory_bytes)
        return change > rule.memory_change * reading.memory_bytes_total
