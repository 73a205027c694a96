"""Hearing: a follower takes over what the leader tells of devices, and forgets what nobody confirms."""

import asyncio
from collections.abc import Callable
from typing import Final

from aliquot.service.leadership.relaying.ports import ReadingsRelay, Told
from aliquot.service.leadership.relaying.sheet import Line, readings_in
from aliquot.service.ports import Clock, StoreUnavailable
from aliquot.service.state import State
from aliquot_schema.ids import AgentId

STALE_S: Final = 20.0
"""What was not confirmed for so long is known no more."""
TURN: Final = 32
"""After so many agents everything else has its turn."""


class Hearing:
    """Writes the readings of a state, and what is blocked there, as long as its server does not lead."""

    def __init__(self, *, state: State, relay: ReadingsRelay, clock: Clock, leads: Callable[[], bool]) -> None:
        self._state = state
        self._relay = relay
        self._clock = clock
        self._leads = leads
        self._known: tuple[int, int] | None = None
        self._heard_s = 0.0
        self._lines: dict[AgentId, Line] = {}
        """As they were told."""
        self._shown: dict[AgentId, Line] = {}
        """Those that are in the state."""
        state.readings.listeners.append(self._reset)

    async def run_once(self) -> None:
        """Look what the leader tells. A database that is away is waited for."""
        try:
            told = await self._relay.newest(known=self._known)
        except StoreUnavailable:
            if self._clock.monotonic() - self._heard_s > STALE_S:
                self._forget()
            return
        self._heard_s = self._clock.monotonic()
        if self._leads():
            return
        if told is None or told.age_s > STALE_S:
            self._forget()
            return
        self._note(told)
        await self._show()

    def _note(self, told: Told) -> None:
        if told.sheet is not None:
            self._known = told.epoch, told.number
            self._lines = {line.agent_id: line for line in told.sheet.lines}
            self._state.external.set(told.sheet.blocked)

    async def _show(self) -> None:
        """An agent whose devices are not known as they were told, here or there, has its turn when they are."""
        if gone := self._shown.keys() - self._lines.keys():
            self._shown = {agent_id: line for agent_id, line in self._shown.items() if agent_id not in gone}
            self._state.readings.forget(gone)
        moved = [line for agent_id, line in self._lines.items() if self._shown.get(agent_id) != line]
        for count, line in enumerate(moved, start=1):
            agent = self._state.agents.get(line.agent_id)
            if agent is not None and agent.version == line.version:
                self._shown[agent.id] = line
                self._state.readings.take(agent.id, readings_in(line, agent))
            if count % TURN == 0:
                await asyncio.sleep(0)
                if self._leads():
                    return

    def _forget(self) -> None:
        if self._known is not None and not self._leads():
            self._state.readings.drop()
            self._state.external.set({})

    def _reset(self, agent_id: AgentId | None) -> None:
        """Whoever begins or ends a term drops all that is known: from then on nothing is in the state any more."""
        if agent_id is None:
            self._known = None
            self._lines, self._shown = {}, {}
