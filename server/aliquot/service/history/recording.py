"""Recording: what a leader adds to history, from the readings of agents and the events of sessions."""

import asyncio
import logging
from typing import Final

from aliquot.service.history.history import History
from aliquot.service.history.ports import HistoryUnavailable
from aliquot.service.history.queue_sampling import QueueSampling
from aliquot.service.history.samples import QUEUE_EVERY_S
from aliquot.service.history.tap import Tap
from aliquot.service.journal import Journal
from aliquot.service.leaps import Leaps
from aliquot.service.ports import Clock
from aliquot.service.state import State
from aliquot_schema.launching import ReadingsTaken

TEND_FIRST_S: Final = 30.0
TEND_EVERY_S: Final = 600.0

log: Final = logging.getLogger("aliquot.history")


class HistoryRecording:
    """For one term. Until a store of history is there, nothing is recorded."""

    def __init__(self, history: History, *, state: State, journal: Journal, clock: Clock, leaps: Leaps) -> None:
        """From now on it hears of every event."""
        self._history = history
        self._clock = clock
        self._leaps = leaps
        self._tap = Tap(state)
        self._sampling = QueueSampling(state, take=history.take)
        journal.listeners.append(self._sampling.hear)

    def note(self, message: ReadingsTaken) -> None:
        """An agent measured its devices."""
        if self._history.is_kept:
            sample = self._tap.sample(message, at_us=self._clock.now_us())
            if sample is not None:
                self._history.take(sample)

    async def run(self) -> None:
        """Sample the queue, and sum up what is whole, for ever."""
        await self._history.until_kept()
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._sample_for_ever(), name="history samples")
            loops.create_task(self._tend_for_ever(), name="history tending")

    async def _sample_for_ever(self) -> None:
        while True:
            self._sampling.sample(self._clock.now_us())
            await self._clock.sleep(QUEUE_EVERY_S)

    async def _tend_for_ever(self) -> None:
        wait_s = TEND_FIRST_S
        while True:
            await self._clock.sleep(wait_s)
            wait_s = TEND_EVERY_S
            if not self._leaps.is_steady():
                continue
            try:
                await self._history.tend()
            except HistoryUnavailable:
                continue  # its store says why, once
            except Exception:
                log.exception("history cannot be summed up now")
