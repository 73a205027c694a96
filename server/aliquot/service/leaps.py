"""Leaps of the clock: what is too old by it is not removed at once after it went ahead by a week or more.

A clock that is wrong is put right within a day, or by somebody who reads the log; nothing is lost by it until then, nor
after: what was dated ahead meanwhile is too old only when the wall has come so far. A server that was off, or slept,
for a week waits a day for nothing. One that begins while the clock is still wrong takes it for right, if something was
written down since it leapt.
"""

import logging
from typing import Final

from aliquot.service.ports import Clock

log: Final = logging.getLogger("aliquot.clock")

LEAP_S: Final = 7 * 86_400.0
PATIENCE_S: Final = 86_400.0


class Leaps:
    """Compares the clock on the wall with the time that goes by, from one look to the next."""

    def __init__(self, clock: Clock, *, known_us: int = 0) -> None:
        """
        Args:
            known_us: how late it was once, as the log tells; 0 = nobody knows.
        """
        self._clock = clock
        self._offset_s = (known_us or clock.wall_us()) / 1e6 - clock.monotonic()
        self._since_s: float | None = None

    def is_steady(self) -> bool:
        """Whether the clock can be gone by. That it cannot is logged once."""
        at_s = self._clock.monotonic()
        offset_s = self._clock.wall_us() / 1e6 - at_s
        ahead_s = offset_s - self._offset_s
        if ahead_s >= LEAP_S:
            if self._since_s is None:
                self._since_s = at_s
                log.error(
                    "the clock went ahead by %d days at once; nothing is removed as too old for a day: if it is wrong, "
                    "put it right",
                    ahead_s // 86_400,
                )
            if at_s - self._since_s < PATIENCE_S:
                return False
        self._offset_s, self._since_s = offset_s, None
        return True
