"""Backlog: said once when more waits than should, and once when that is over."""

import logging
from typing import Final

log: Final = logging.getLogger("aliquot.queue")


class Backlog:
    """Watches the length of the queue."""

    def __init__(self, waiting_max: int) -> None:
        """
        Args:
            waiting_max: sessions and tasks that may wait before it is said; 0 = it is never said.
        """
        self._waiting_max = waiting_max
        self.is_over = False

    def look(self, waiting: int) -> None:
        """Look at how many wait now."""
        if not self.is_over and 0 < self._waiting_max < waiting:
            self.is_over = True
            fields = {"event": "queue_backlog", "waiting": waiting, "threshold": self._waiting_max}
            log.warning("queue backlog over threshold", extra=fields)
        elif self.is_over and waiting <= self._waiting_max * 9 // 10:  # not at the threshold itself: it would flap
            self.is_over = False
            fields = {"event": "queue_backlog_over", "waiting": waiting, "threshold": self._waiting_max}
            log.info("queue backlog is below its threshold again", extra=fields)
