"""Device updates: a change-numbered table of all devices, and the subscriptions that follow it.

A follower that knows the table as of number n receives everything with a higher number; nothing is stored per follower.
Events and readings only mark agents. Marked agents are recomputed when a follower asks, at most four times a second.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from aliquot.service.state.state import State
from aliquot.service.views.agents import alloc_map_text, device_views
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.events import Event, Record
from aliquot_schema.ids import AgentId, NodeId, natural_key
from aliquot_schema.resources.leases import Lease
from aliquot_schema.sessions import Session
from aliquot_schema.states import AgentState
from aliquot_schema.views.agents import DeviceView
from aliquot_schema.views.live import AgentDevicesView, DeviceUpdateView, StreamPosition


def nodes_of(record: Record, state: State) -> Iterable[NodeId]:
    """Nodes whose device views may change with a record: those of agents, leases, and sessions with kernels."""
    match record:
        case Agent():
            return (record.node_id,)
        case Lease():
            return (state.node_of(record.agent_id),)
        case Session():
            kernels = state.kernels_of.get(record.id, {}).values()
            return {state.node_of(kernel.agent_id): None for kernel in kernels if kernel.attempt == record.attempt}
        case _:
            return ()


K = TypeVar("K", bound=str)

BEGUN_MAX: Final = 2**52
"""Keeps change numbers far below 2**53, the largest integer that all JSON clients read exactly."""
GONE_KEPT: Final = 1000
"""Remembered removals: of agents, and of the devices of each agent."""
AGENTS_PER_STEP: Final = 32
"""Agents recomputed before the event loop gets a turn."""


@dataclass(slots=True)
class _AgentEntry:
    """One agent's devices, each with the number of its last change."""

    node_id: NodeId
    number: int = 0
    """Number of the agent's last change."""
    alloc_map: str = ""
    map_number: int = 0
    devices: dict[str, tuple[DeviceView, int]] = field(default_factory=dict)
    gone: dict[str, int] = field(default_factory=dict)


class DeviceBoard:
    """All devices of all agents that have not left.

    Args:
        begun: first number, random below `BEGUN_MAX`, so that numbers from another server are not mistaken for ours.
    """

    def __init__(self, state: State, *, begun: int) -> None:
        self._state = state
        self.number = begun
        self._floor = begun
        """Followers with a lower number get a full snapshot."""
        self._entries: dict[AgentId, _AgentEntry] = {}
        self._gone: dict[AgentId, int] = {}
        self._marked: dict[AgentId, None] = dict.fromkeys(state.agents)
        self._foreign = state.foreign_usage.blocked, state.foreign_usage.users
        self._has_moved = False
        """Whether an unfinished refresh has found changes."""
        self._news = asyncio.Event()
        self._refreshing = asyncio.Lock()
        state.readings.listeners.append(self.measured)
        state.foreign_usage.listeners.append(self._news.set)

    def on_event(self, event: Event) -> None:
        """Mark the agents on nodes that an event concerns."""
        for node_id in nodes_of(event.record, self._state):
            self._mark(*(agent.id for agent in self._state.agents_on(node_id)))

    def measured(self, agent_id: AgentId | None) -> None:
        """Mark an agent with new readings; None = all readings were dropped."""
        self._mark(*(self._state.agents if agent_id is None else (agent_id,)))

    def knows(self, number: int) -> bool:
        """Whether the changes since this number are known."""
        return self._floor <= number <= self.number

    async def news(self) -> None:
        """Wait until an agent is marked."""
        await self._news.wait()

    async def refresh(self) -> None:
        """Recompute the marked agents. All changes found get the next number."""
        async with self._refreshing:
            number = self.number + 1
            self._mark_blocked()
            while len(self._marked) > AGENTS_PER_STEP:
                # Kept for the next refresh, should this one be canceled here.
                self._has_moved |= self._refresh_batch(number)
                await asyncio.sleep(0)
                self._mark_blocked()
            # The rest in one step, so that it is consistent.
            if self._refresh_batch(number) or self._has_moved:
                self.number, self._has_moved = number, False
            self._news.clear()

    def since(self, number: int | None) -> DeviceUpdateView:
        """Changes since a number; a full snapshot when they are not known."""
        is_snapshot = number is None or not self.knows(number)
        known = -1 if number is None or is_snapshot else number
        moved = [agent_id for agent_id, entry in self._entries.items() if entry.number > known]
        changes = (
            _changes(agent_id, self._entries[agent_id], known=known) for agent_id in sorted(moved, key=natural_key)
        )
        gone = () if is_snapshot else tuple(name for name, at in self._gone.items() if at > known)
        return DeviceUpdateView(
            number=self.number,
            revision=self._state.revision,
            is_snapshot=is_snapshot,
            agents=tuple(changes),
            agents_gone=gone,
        )

    def _mark(self, *agents: AgentId) -> None:
        self._marked.update(dict.fromkeys(agents))
        self._news.set()

    def _mark_blocked(self) -> None:
        """Mark nodes whose foreign GPU usage changed; it is measured, so there is no event."""
        before, self._foreign = self._foreign, (self._state.foreign_usage.blocked, self._state.foreign_usage.users)
        for old, new in zip(before, self._foreign, strict=True):
            moved = [node_id for node_id in {**old, **new} if old is not new and old.get(node_id) != new.get(node_id)]
            self._marked.update((agent.id, None) for node_id in moved for agent in self._state.agents_on(node_id))

    def _refresh_batch(self, number: int) -> bool:
        batch = list(self._marked)[:AGENTS_PER_STEP]
        for agent_id in batch:
            del self._marked[agent_id]
        return any([self._refresh_agent(agent_id, number) for agent_id in batch])

    def _refresh_agent(self, agent_id: AgentId, number: int) -> bool:
        agent = self._state.agents.get(agent_id)
        if agent is None or agent.state is AgentState.LEFT:
            is_known = self._entries.pop(agent_id, None) is not None
            if is_known:
                self._note_gone(agent_id, number)
            return is_known
        entry = self._entries.get(agent_id)
        if entry is None or entry.node_id != agent.node_id:
            if entry is not None or agent_id in self._gone:
                self._note_gone(agent_id, number)  # same id, but another node: its old devices are gone
            entry = self._entries[agent_id] = _AgentEntry(agent.node_id)
        has_moved = _update(entry, self._state, agent, number)
        self._forget_oldest(entry.gone)
        return has_moved

    def _note_gone(self, agent_id: AgentId, number: int) -> None:
        self._gone.pop(agent_id, None)
        self._gone[agent_id] = number
        self._forget_oldest(self._gone)

    def _forget_oldest(self, gone: dict[K, int]) -> None:
        """Bounds the memory for removals: MIG slices come and go under ever new names."""
        while len(gone) > GONE_KEPT:
            self._floor = max(self._floor, gone.pop(next(iter(gone))))


def _update(entry: _AgentEntry, state: State, agent: Agent, number: int) -> bool:
    """Recompute an agent's entry; returns whether anything changed."""
    has_moved = False
    text = alloc_map_text(state, agent)
    if text != entry.alloc_map or not entry.map_number:
        entry.alloc_map, entry.map_number, has_moved = text, number, True
    views = device_views(state, agent)
    for view in views:
        known = entry.devices.get(view.id)
        if known is None or known[0] != view:
            entry.devices[view.id] = view, number
            entry.gone.pop(view.id, None)
            has_moved = True
    if len(views) < len(entry.devices):
        for name in entry.devices.keys() - {view.id for view in views}:
            del entry.devices[name]
            entry.gone[name], has_moved = number, True
    if has_moved:
        entry.number = number
    return has_moved


def _changes(agent_id: AgentId, entry: _AgentEntry, *, known: int) -> AgentDevicesView:
    """The changes of an agent since a number."""
    devices = tuple(view for view, number in entry.devices.values() if number > known)
    gone = tuple(sorted(name for name, number in entry.gone.items() if number > known >= 0))
    return AgentDevicesView(
        agent_id=agent_id,
        node_id=entry.node_id,
        gpu_alloc_map=entry.alloc_map,
        devices=devices,
        devices_gone=gone,
    )


PAUSE_S: Final = 0.25
"""Minimum time between two updates of a follower: at most four a second."""


class DeviceChanges:
    """Subscriptions to the device board; each keeps only the number that it has reached."""

    def __init__(self, board: DeviceBoard, *, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._board = board
        self._sleep = sleep

    def place(self, after: int | None) -> StreamPosition:
        """Where a follower starts: at `after`, or with a full snapshot if that number is unknown or too old."""
        known = None if after is None or not self._board.knows(after) else after
        return StreamPosition(known=known, newest=self._board.number, is_alike=True)

    async def follow(self, after: int | None) -> AsyncIterator[DeviceUpdateView]:
        """A snapshot of all devices, or the changes since a number; then every change, without end."""
        position = self.place(after).known
        while True:
            await self._board.refresh()
            if position is not None and self._board.number <= position:
                await self._board.news()
                continue
            update = self._board.since(position)
            position = update.number
            yield update
            await self._sleep(PAUSE_S)
