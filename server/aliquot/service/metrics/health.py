"""Health: conditions that impair a server, queue backlog, event-loop lag, and a probe of the database."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from msgspec import Struct

from aliquot.service.metrics.counters import SHORT_S, StoreMeasures, counter, export_zeros, histogram
from aliquot.service.ports import Clock, StoreUnavailable
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State


class HealthCondition(Struct, frozen=True, kw_only=True):
    """One current problem."""

    code: str
    """From a closed list; reveals nothing about the cluster, so it may be public."""
    message: str
    """Text with details, for callers who may see the cluster."""
    is_fatal: bool
    """Whether a load balancer should send requests to another server."""


class Sleep(Protocol):
    """See `aliquot.service.ports.Clock.sleep`."""

    async def __call__(self, seconds: float) -> None:
        """Sleep without blocking the event loop."""


log: Final = logging.getLogger("aliquot.queue")

BACKLOG_S: Final = 1.0


class Backlog:
    """Logs once when the queue exceeds a threshold, and once when it is below 90 % of it again."""

    def __init__(self, waiting_max: int) -> None:
        """
        Args:
            waiting_max: threshold in waiting sessions and tasks; 0 = never log.
        """
        self._waiting_max = waiting_max
        self.is_over = False

    async def run(self, state: State, journal: Journal, *, sleep: Sleep) -> None:
        """Check the queue every `BACKLOG_S` without end, while this server leads."""
        while True:
            if journal.leads:
                self.look(state.tasks_pending)
            await sleep(BACKLOG_S)

    def look(self, waiting: int) -> None:
        """Check the current number of waiting tasks."""
        if not self.is_over and 0 < self._waiting_max < waiting:
            self.is_over = True
            fields = {"event": "queue_backlog", "waiting": waiting, "threshold": self._waiting_max}
            log.warning("queue backlog over threshold", extra=fields)
        elif self.is_over and waiting <= self._waiting_max * 9 // 10:  # hysteresis
            self.is_over = False
            fields = {"event": "queue_backlog_over", "waiting": waiting, "threshold": self._waiting_max}
            log.info("queue backlog is below its threshold again", extra=fields)


BEAT_S: Final = 0.5
RECENT_S: Final = 30.0
STALL_S: Final = 5.0
"""Lag from which the event loop counts as stalled."""


class LoopLag:
    """Event-loop lag: how much later than requested timers fire, on the loop that `run` runs on."""

    def __init__(self) -> None:
        self.seconds = histogram("event_loop_lag_seconds", "Delay of event loop timers.", SHORT_S)
        self._recent: deque[tuple[float, float]] = deque(maxlen=int(RECENT_S / BEAT_S))

    async def run(self, sleep: Sleep) -> None:
        """Measure without end."""
        while True:
            began = time.monotonic()
            await sleep(BEAT_S)
            self.note(time.monotonic() - began - BEAT_S)

    def note(self, lag_s: float) -> None:
        """Add one measurement."""
        lag_s = max(0.0, lag_s)
        self.seconds.observe(lag_s)
        self._recent.append((time.monotonic(), lag_s))

    def worst_s(self) -> float:
        """The longest lag of the last `RECENT_S`."""
        since = time.monotonic() - RECENT_S
        return max((lag_s for at, lag_s in self._recent if at >= since), default=0.0)


LOOK_S: Final = 1.0


class Availability:
    """The share of time in which `/readyz` was 200, since this process started."""

    def __init__(self) -> None:
        text = "Seconds since the start of this server, by what /readyz answered: ready is yes or no."
        self.seconds = counter("served_seconds", text, "ready")
        export_zeros(self.seconds, ("yes", "no"))
        self._ready_s = self._total_s = 0.0

    async def run(self, conditions: Callable[[], tuple[HealthCondition, ...]], *, sleep: Sleep) -> None:
        """Look at the conditions every `LOOK_S` without end."""
        before = time.monotonic()
        while True:
            await sleep(LOOK_S)
            now = time.monotonic()
            self.note(now - before, is_ready=not any(condition.is_fatal for condition in conditions()))
            before = now

    def note(self, seconds: float, *, is_ready: bool) -> None:
        """Add the time since the last look; what held at its end counts for all of it."""
        self.seconds.labels("yes" if is_ready else "no").inc(seconds)
        self._total_s += seconds
        self._ready_s += seconds * is_ready

    def ratio(self) -> float:
        """Ready time by all time; 1 before the first look."""
        return self._ready_s / self._total_s if self._total_s else 1.0


store_log: Final = logging.getLogger("aliquot.store")

ASK_S: Final = 5.0
ANSWER_S_MAX: Final = 10.0


async def watch_database(ask: Callable[[], Awaitable[object]], measures: StoreMeasures, *, clock: Clock) -> None:
    """Probe the database every `ASK_S`, so that an outage is noticed while it is not in use.

    Args:
        ask: any read; the store itself records the outcome in `measures`.
    """
    status = _DatabaseStatus(measures)
    while True:
        asking = asyncio.ensure_future(_probed(ask))
        try:
            # A probe is never canceled on time-out: its connection could not be used for another query.
            done, _ = await asyncio.wait({asking}, timeout=ANSWER_S_MAX)
            if not done:
                measures.note_silence()
                status.log_change()
                await asking
        finally:
            asking.cancel()
        status.log_change()
        await clock.sleep(ASK_S)


class _DatabaseStatus:
    """Logs when the database goes down and when it is up again."""

    def __init__(self, measures: StoreMeasures) -> None:
        self._measures = measures
        self._was_up = True

    def log_change(self) -> None:
        """Log a change."""
        is_up = self._measures.is_up
        if is_up != self._was_up:
            self._was_up = is_up
            store_log.log(
                logging.WARNING if is_up else logging.ERROR,
                "the database %s",
                "answers again" if is_up else "does not answer, or cannot be written",
            )


async def _probed(ask: Callable[[], Awaitable[object]]) -> None:
    try:
        await ask()
    except StoreUnavailable:
        pass  # the store has counted it
    except Exception as error:
        # The probe must continue, or the next outage would go unnoticed.
        store_log.warning("the database probe failed: %s: %s", type(error).__name__, error)
