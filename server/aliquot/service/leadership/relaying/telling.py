"""Telling: the leader puts down what devices measure, when it is other than before."""

import asyncio
from typing import Final

from aliquot.service.leadership.relaying.ports import ReadingsRelay
from aliquot.service.leadership.relaying.sheet import Sheet, sheet_of
from aliquot.service.ports import Clock
from aliquot.service.state import State

KEEP_S: Final = 6.0
"""A sheet that nothing has changed in is confirmed so often."""


class Telling:
    """Of one server, in all of its terms."""

    def __init__(self, *, state: State, relay: ReadingsRelay, clock: Clock) -> None:
        self._state = state
        self._relay = relay
        self._clock = clock
        self._number = 0
        self._told: Sheet | None = None
        self._epoch = 0
        """In which it was told."""
        self._told_s = 0.0

    async def run_once(self, epoch: int) -> None:
        """Tell how it is now. Raises StoreUnavailable."""
        agents, readings = tuple(self._state.agents.values()), dict(self._state.readings)
        # Thousands of devices: in a thread, so that others have their turns meanwhile.
        sheet = await asyncio.to_thread(sheet_of, agents, readings, blocked=self._state.external.blocked)
        now_s = self._clock.monotonic()
        if (epoch, sheet) != (self._epoch, self._told):
            self._number += 1
            done = await self._relay.put(sheet, epoch=epoch, number=self._number)
        elif now_s - self._told_s >= KEEP_S:
            done = await self._relay.keep(epoch=epoch, number=self._number)
        else:
            return
        self._told, self._epoch, self._told_s = sheet if done else None, epoch, now_s
