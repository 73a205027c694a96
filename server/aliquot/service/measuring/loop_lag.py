"""Lag of the event loop: how much later than asked a timer fires. Whatever holds up the loop holds up everybody."""

import time
from collections import deque
from typing import Final, Protocol

from aliquot.service.measuring.tallies import SHORT_S, Histogram

BEAT_S: Final = 0.5
RECENT_S: Final = 30.0
STALL_S: Final = 5.0
"""A loop that was held up so long is said to have stalled."""


class Sleep(Protocol):
    """See `aliquot.service.ports.Clock.sleep`."""

    async def __call__(self, seconds: float) -> None:
        """Let others run for a while."""


class LoopLag:
    """Of the loop that `run` runs on."""

    def __init__(self) -> None:
        self.seconds = Histogram(SHORT_S)
        self._recent: deque[tuple[float, float]] = deque(maxlen=int(RECENT_S / BEAT_S))

    async def run(self, sleep: Sleep) -> None:
        """Measure for ever."""
        while True:
            began = time.monotonic()
            await sleep(BEAT_S)
            self.note(time.monotonic() - began - BEAT_S)

    def note(self, lag_s: float) -> None:
        """Take in one lag."""
        lag_s = max(0.0, lag_s)
        self.seconds.observe(lag_s)
        self._recent.append((time.monotonic(), lag_s))

    def worst_s(self) -> float:
        """The longest lag of the last half minute."""
        since = time.monotonic() - RECENT_S
        return max((lag_s for at, lag_s in self._recent if at >= since), default=0.0)
