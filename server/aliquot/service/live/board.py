"""The board: how all devices stand, with the number of the change by which each came to stand so.

Who knows the board as of one number is told what has a higher one, however far back that is, and needs nothing kept for
him. Nothing is looked at before somebody asks: what happens only marks the agents that have to be looked at again.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final, TypeVar

from aliquot.service.agent_projection import alloc_map_text, device_views
from aliquot.service.live.concerned import nodes_of
from aliquot.service.state import State
from aliquot_schema.agents import Agent
from aliquot_schema.events import Event
from aliquot_schema.ids import AgentId, NodeId
from aliquot_schema.live_views import AgentDevicesView, DeviceUpdateView
from aliquot_schema.natural_order import natural_key
from aliquot_schema.states import AgentState
from aliquot_schema.views import DeviceView

K = TypeVar("K", bound=str)

BEGUN_MAX: Final = 2**52
"""Numbers stay far below 2**53, up to which every client can read them."""
GONE_KEPT: Final = 1000
"""Agents that left, and devices of an agent that are gone, of which that is still known."""
TURN: Final = 32
"""After so many agents everything else has its turn."""


@dataclass(slots=True)
class _Stand:
    """One agent's devices. Numbers say which change it was that made them so."""

    node_id: NodeId
    number: int = 0
    """Of the newest of all its changes."""
    alloc_map: str = ""
    map_number: int = 0
    devices: dict[str, tuple[DeviceView, int]] = field(default_factory=dict)
    gone: dict[str, int] = field(default_factory=dict)


class Board:
    """All devices of all agents that have not left.

    Args:
        begun: the number it begins with, drawn below `BEGUN_MAX`: a number that another server told is not known here.
    """

    def __init__(self, state: State, *, begun: int) -> None:
        self._state = state
        self.number = begun
        self._floor = begun
        """Who knows less than this is told everything."""
        self._stands: dict[AgentId, _Stand] = {}
        self._gone: dict[AgentId, int] = {}
        self._marked: dict[AgentId, None] = dict.fromkeys(state.agents)
        self._blocked = state.external.blocked
        self._has_moved = False
        """Whether a look that is not at its end found something."""
        self._news = asyncio.Event()
        self._looking = asyncio.Lock()
        state.readings.listeners.append(self.measured)
        state.external.listeners.append(self._news.set)

    def hear(self, event: Event) -> None:
        """Mark what an event is about."""
        for node_id in nodes_of(event.record, self._state):
            self._mark(*(agent.id for agent in self._state.agents_on(node_id)))

    def measured(self, agent_id: AgentId | None) -> None:
        """Mark an agent that has measured; None: nothing is known any more of any."""
        self._mark(*(self._state.agents if agent_id is None else (agent_id,)))

    def knows(self, number: int) -> bool:
        """Whether it can be told what changed since."""
        return self._floor <= number <= self.number

    async def news(self) -> None:
        """Wait until something is marked."""
        await self._news.wait()

    async def look(self) -> None:
        """Look again at what is marked. What is another way than before gets the next number."""
        async with self._looking:
            number = self.number + 1
            self._mark_blocked()
            while len(self._marked) > TURN:
                # Remembered for the next look, should whoever looks now be canceled here.
                self._has_moved |= self._look_at_some(number)
                await asyncio.sleep(0)
                self._mark_blocked()
            # The rest in one go, so that all of it is as of one moment.
            if self._look_at_some(number) or self._has_moved:
                self.number, self._has_moved = number, False
            self._news.clear()

    def since(self, number: int | None) -> DeviceUpdateView:
        """What changed since; all of it where that is not known."""
        is_snapshot = number is None or not self.knows(number)
        known = -1 if number is None or is_snapshot else number
        moved = [agent_id for agent_id, stand in self._stands.items() if stand.number > known]
        shown = (_shown(agent_id, self._stands[agent_id], known=known) for agent_id in sorted(moved, key=natural_key))
        gone = () if is_snapshot else tuple(name for name, at in self._gone.items() if at > known)
        return DeviceUpdateView(
            number=self.number,
            revision=self._state.revision,
            is_snapshot=is_snapshot,
            agents=tuple(shown),
            agents_gone=gone,
        )

    def _mark(self, *agents: AgentId) -> None:
        self._marked.update(dict.fromkeys(agents))
        self._news.set()

    def _mark_blocked(self) -> None:
        """Devices that processes of others came to or left; that is measured, and no event."""
        before, blocked = self._blocked, self._state.external.blocked
        if blocked is before:
            return
        self._blocked = blocked
        moved = [node_id for node_id in {**before, **blocked} if before.get(node_id) != blocked.get(node_id)]
        self._marked.update((agent.id, None) for node_id in moved for agent in self._state.agents_on(node_id))

    def _look_at_some(self, number: int) -> bool:
        some = list(self._marked)[:TURN]
        for agent_id in some:
            del self._marked[agent_id]
        return any([self._look_at(agent_id, number) for agent_id in some])

    def _look_at(self, agent_id: AgentId, number: int) -> bool:
        agent = self._state.agents.get(agent_id)
        if agent is None or agent.state is AgentState.LEFT:
            is_known = self._stands.pop(agent_id, None) is not None
            if is_known:
                self._note_gone(agent_id, number)
            return is_known
        stand = self._stands.get(agent_id)
        if stand is None or stand.node_id != agent.node_id:
            if stand is not None or agent_id in self._gone:
                self._note_gone(agent_id, number)  # what was known of it is not of this one
            stand = self._stands[agent_id] = _Stand(agent.node_id)
        has_moved = _renew(stand, self._state, agent, number)
        self._forget_oldest(stand.gone)
        return has_moved

    def _note_gone(self, agent_id: AgentId, number: int) -> None:
        self._gone.pop(agent_id, None)
        self._gone[agent_id] = number
        self._forget_oldest(self._gone)

    def _forget_oldest(self, gone: dict[K, int]) -> None:
        """Slices of devices come and go, each under a new name."""
        while len(gone) > GONE_KEPT:
            self._floor = max(self._floor, gone.pop(next(iter(gone))))


def _renew(stand: _Stand, state: State, agent: Agent, number: int) -> bool:
    """Bring an agent's stand up to date; whether anything is another way."""
    has_moved = False
    text = alloc_map_text(state, agent)
    if text != stand.alloc_map or not stand.map_number:
        stand.alloc_map, stand.map_number, has_moved = text, number, True
    views = device_views(state, agent)
    for view in views:
        known = stand.devices.get(view.id)
        if known is None or known[0] != view:
            stand.devices[view.id] = view, number
            stand.gone.pop(view.id, None)
            has_moved = True
    if len(views) < len(stand.devices):
        for name in stand.devices.keys() - {view.id for view in views}:
            del stand.devices[name]
            stand.gone[name], has_moved = number, True
    if has_moved:
        stand.number = number
    return has_moved


def _shown(agent_id: AgentId, stand: _Stand, *, known: int) -> AgentDevicesView:
    """What is another way since a number."""
    devices = tuple(view for view, number in stand.devices.values() if number > known)
    gone = tuple(sorted(name for name, number in stand.gone.items() if number > known >= 0))
    return AgentDevicesView(
        agent_id=agent_id,
        node_id=stand.node_id,
        gpu_alloc_map=stand.alloc_map,
        devices=devices,
        devices_gone=gone,
    )
