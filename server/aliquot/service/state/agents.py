"""Agents: registered agents with devices, latest measurements, foreign GPU usage, disk shortages, feasible requests.

Agents are durable. Everything measured is kept in memory only: the leader gets it from the agents, a follower from
the leader.

- A device used by a process that Aliquot did not start counts as fully held.
- Which kinds of requests the agents could run if they were empty is cached.
- On an agent whose disk is nearly full nothing new is launched, which leaves the space to running jobs.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.allocation.options import AllocationOptions
from aliquot.core.model.snapshot import AgentRow
from aliquot.core.scheduler.feasibility import impossible
from aliquot.service.ports import Clock
from aliquot.service.state.idle_devices import IdleDevices
from aliquot.service.state.rows import AgentRows
from aliquot_schema.cluster.agents import TIME_US_MAX, Agent, Capabilities, agent_fault
from aliquot_schema.errors import AliquotError
from aliquot_schema.ids import AgentId, DeviceId, NodeId, PoolId, natural_key
from aliquot_schema.reasons import Reason
from aliquot_schema.resources.devices import Device, DeviceReading
from aliquot_schema.resources.slots import is_accelerator
from aliquot_schema.sessions import Session, SessionSpec
from aliquot_schema.states import AgentState


class Readings(dict[tuple[AgentId, DeviceId], DeviceReading]):
    """Latest measurements, by agent and device. Changed only by `take`, `forget` and `drop`."""

    def __init__(self) -> None:
        super().__init__()
        self.listeners: list[Callable[[AgentId | None], None]] = []
        """Called with the agent whose readings changed; with None when all were dropped."""
        self.idle_devices = IdleDevices()
        self.copy_faults: dict[AgentId, str] = {}
        """Agents that cannot copy results to `results-folder`, and why."""

    def take(self, agent_id: AgentId, readings: Iterable[DeviceReading]) -> None:
        """Store an agent's measurements."""
        self.update(((agent_id, reading.device_id), reading) for reading in readings)
        self._notify(agent_id)

    def note_copies(self, agent_id: AgentId, fault: str | None) -> None:
        """Store whether an agent can copy results."""
        if fault is None:
            self.copy_faults.pop(agent_id, None)
        else:
            self.copy_faults[agent_id] = fault

    def forget(self, agent_ids: Collection[AgentId]) -> None:
        """Remove the readings of these agents."""
        for key in [key for key in self if key[0] in agent_ids]:
            del self[key]
        for agent_id in agent_ids:
            self._notify(agent_id)

    def drop(self) -> None:
        """Remove all readings."""
        self.clear()
        self.idle_devices.clear()
        self.copy_faults.clear()
        self._notify(None)

    def _notify(self, agent_id: AgentId | None) -> None:
        for listener in self.listeners:
            listener(agent_id)


log: Final = logging.getLogger("aliquot.agents")

_CHECKED: Final = ("devices", "slot_types", "attributes", "capabilities", "scaling_factor", "labels", "hostname")
"""Fields validated by `agent_fault`; an agent is validated again only when one of these objects is replaced."""


_LEFT_OUT: Final = ("devices", "slot_types", "attributes", "capabilities", "scaling_factor")
"""Fields that an invalid record is used without."""


class AgentFaults:
    """Agents with an invalid description, and the reasons as text. Not durable."""

    def __init__(self) -> None:
        self.unusable: dict[AgentId, str] = {}
        """Agents whose stored record is invalid; they have no devices until they register again."""
        self._stored: dict[AgentId, Agent] = {}
        """Their records as stored."""
        self.claims: dict[AgentId, tuple[str, ...]] = {}
        """Agents that report devices of another node's agent, with a message for each device."""
        self._refused: dict[AgentId, str] = {}
        """Agents whose registration was refused."""

    def note_unusable(self, agent: Agent, words: str | None) -> None:
        """Record why an agent's stored record is invalid; None = it is valid."""
        if words is None:
            self.unusable.pop(agent.id, None)
            self._stored.pop(agent.id, None)
            return
        if self.unusable.get(agent.id) != words:
            log.warning(
                "agent %s is excluded from scheduling, because its stored record is invalid: %s; restart the agent",
                agent.id,
                words,
            )
        self.unusable[agent.id], self._stored[agent.id] = words, agent

    def as_stored(self, agent: Agent, *, known: Agent | None) -> Agent:
        """A new version of an agent, to be stored: one made from a record without its invalid fields gets them back.

        Args:
            known: the record in memory.
        """
        stored = self._stored.get(agent.id)
        if (
            stored is None
            or known is None
            or any(getattr(agent, name) is not getattr(known, name) for name in _LEFT_OUT)
        ):
            return agent
        times = ("registered_us", "state_changed_us")
        kept = [*_LEFT_OUT, *(name for name in times if getattr(agent, name) == getattr(known, name))]
        return replace(agent, **{name: getattr(stored, name) for name in kept})

    def note_refused(self, agent_id: AgentId, words: str | None) -> None:
        """Record why an agent's registration was refused; None = it has registered."""
        if words is None:
            self._refused.pop(agent_id, None)
        else:
            self._refused[agent_id] = words

    def note_claims(self, agent_id: AgentId, words: tuple[str, ...]) -> None:
        """Record which of an agent's devices belong to an agent of another node, each as a message; none = no more."""
        before = self.claims.pop(agent_id, ())
        if words:
            self.claims[agent_id] = words
        for text in words if words != before else ():
            log.error("%s", text)

    def of(self, agent_id: AgentId) -> str | None:
        """Why an agent is refused or excluded from scheduling; None when it is neither."""
        return self._refused.get(agent_id) or self.unusable.get(agent_id)


_CAPACITY_REASONS: Final = frozenset(
    {Reason.CLUSTER_UNAVAILABLE, Reason.NO_AGENT, Reason.INSUFFICIENT, Reason.FRAGMENTED, Reason.GANG_INCOMPLETE}
)
_AGENTS_NAMED: Final = 3


def accelerator_ids(agent: Agent) -> set[DeviceId]:
    """The accelerators that an agent reports."""
    return {device.id for device in agent.devices if any(map(is_accelerator, device.costs))}


class AgentRegistry:
    """All agents ever registered, including those that left."""

    def __init__(self) -> None:
        self.agents: dict[AgentId, Agent] = {}
        self.layouts: dict[AgentId, DeviceLayout] = {}
        self.reachable: set[AgentId] = set()
        self.faults = AgentFaults()
        self.readings = Readings()
        self.version = 0
        """Incremented by every change of an agent."""
        self.withdrawn: dict[AgentId, None] = {}
        """Agents whose node is about to be taken away or leaves at a known time, or that have a faulty device."""
        self._on: dict[NodeId, dict[AgentId, None]] = {}
        self._reporting: dict[DeviceId, dict[AgentId, None]] = {}
        """By accelerator, the agents that report it."""
        self._rows = AgentRows()

    def put(self, agent: Agent) -> bool:
        """Add or replace an agent; returns whether its devices or its node changed."""
        self.version += 1
        known = self.agents.get(agent.id)
        agent = self._usable(agent, known)
        self.agents[agent.id] = agent
        self.withdrawn.pop(agent.id, None)
        if agent.eviction is not None or agent.evicted_by or agent.until_us is not None or agent.faults:
            self.withdrawn[agent.id] = None
        self._on.setdefault(agent.node_id, {})[agent.id] = None
        has_moved = known is None or known.node_id != agent.node_id
        if known is not None and has_moved:
            del self._on[known.node_id][agent.id]
        if known is not None and known.devices == agent.devices and known.slot_types == agent.slot_types:
            return has_moved
        self.layouts[agent.id] = DeviceLayout.of(agent.devices, slot_types=agent.slot_types)
        for device_id in accelerator_ids(known) if known is not None else ():
            del self._reporting[device_id][agent.id]
        for device_id in accelerator_ids(agent):
            self._reporting.setdefault(device_id, {})[agent.id] = None
        return True

    def _usable(self, agent: Agent, known: Agent | None) -> Agent:
        """The agent, without devices if its record is invalid: an earlier release may have accepted it."""
        if known is not None and all(getattr(known, name) is getattr(agent, name) for name in _CHECKED):
            return agent
        words = agent_fault(agent)
        self.faults.note_unusable(agent, words)
        if words is None:
            return agent
        return replace(
            agent,
            devices=(),
            slot_types={},
            attributes={},
            capabilities=Capabilities(),
            scaling_factor={},
            registered_us=min(max(agent.registered_us, 0), TIME_US_MAX),
            state_changed_us=min(max(agent.state_changed_us, 0), TIME_US_MAX),
        )

    def on(self, node_id: NodeId) -> list[Agent]:
        """All agents of a node."""
        return [self.agents[agent_id] for agent_id in self._on.get(node_id, ())]

    def reporting(self, devices: Iterable[DeviceId]) -> list[Agent]:
        """The agents that report any of these accelerators, in natural order."""
        found = {agent_id for device_id in devices for agent_id in self._reporting.get(device_id, ())}
        return [self.agents[agent_id] for agent_id in sorted(found, key=natural_key)]

    def devices_on(self, node_id: NodeId) -> Mapping[DeviceId, Device]:
        """Devices of a node; one shared by several agents appears once."""
        return {device.id: device for agent in self.on(node_id) for device in agent.devices}

    def explained(self, message: str, *, reason: Reason) -> str:
        """The reason why a session waits, with the agents whose node is about to be taken away."""
        if reason not in _CAPACITY_REASONS or not self.withdrawn:
            return message
        agents = (self.agents[name] for name in sorted(self.withdrawn, key=natural_key))
        leaving = [agent for agent in agents if agent.eviction and agent.state is AgentState.ALIVE]
        named = ", ".join(f"{agent.id} ({agent.eviction})" for agent in leaving[:_AGENTS_NAMED])
        more = f" and {len(leaving) - _AGENTS_NAMED} more" if len(leaving) > _AGENTS_NAMED else ""
        return f"{message} About to be taken away: {named}{more}." if leaving else message

    def row(self, agent: Agent, *, is_open: bool) -> AgentRow:
        """The agent's row in a snapshot; the same object until the agent changes."""
        return self._rows.row(agent, layout=self.layouts[agent.id], is_open=is_open)


_USERS_NAMED: Final = 3
"""Unix accounts named in one message."""

Blocked = Mapping[NodeId, Mapping[DeviceId, int]]
"""By node and device, in budget units: always the device's whole budget."""


ForeignUsers = Mapping[DeviceId, tuple[str, ...]]
"""Unix accounts of foreign processes, by device of one node; an empty tuple = unknown."""


class ForeignUsage:
    """Devices used by processes that Aliquot did not start, counted as fully held unless they are ignored."""

    def __init__(self) -> None:
        self.blocked: Blocked = {}
        """Replaced, never changed."""
        self.users: Mapping[NodeId, ForeignUsers] = {}
        """All devices with foreign processes, blocked or not. Replaced, never changed."""
        self.listeners: list[Callable[[], None]] = []
        """Called when `blocked` or `users` changes."""
        self._known: dict[NodeId, tuple[Mapping[DeviceId, int], Mapping[DeviceId, int]]] = {}

    def set(self, blocked: Blocked, *, users: Mapping[NodeId, ForeignUsers] | None = None) -> bool:
        """Replace what is known; returns whether it changed."""
        users = users or {}
        has_moved = (blocked, users) != (self.blocked, self.users)
        if has_moved:
            self.blocked, self.users = blocked, users
            self._known = {}
            for listener in self.listeners:
                listener()
        return has_moved

    def over(self, used: Mapping[NodeId, Mapping[DeviceId, int]]) -> dict[NodeId, Mapping[DeviceId, int]]:
        """Budget units held, blocked devices included. A node's mapping is the same object until something changes."""
        counted = dict(used)
        for node_id, budgets in self.blocked.items():
            held = used.get(node_id, {})
            known = self._known.get(node_id)
            if known is None or known[0] is not held:
                known = held, {**held, **budgets}
                self._known[node_id] = known
            counted[node_id] = known[1]
        return counted

    def explained(self, message: str, *, reason: Reason) -> str:
        """The reason why a session waits, with the devices that foreign processes keep from it."""
        count = sum(map(len, self.blocked.values()))
        if not count or reason not in _CAPACITY_REASONS:
            return message
        users = sorted({user for node_id in self.blocked for user in self._users_on(node_id)})
        named = f" of {', '.join(users[:_USERS_NAMED])}" if users else ""
        subject = "1 GPU takes" if count == 1 else f"{count} GPUs take"
        them = "it" if count == 1 else "them"
        return f"{message} {subject} nothing new, because foreign processes{named} use {them}."

    def _users_on(self, node_id: NodeId) -> Iterable[str]:
        found = self.users.get(node_id, {})
        return (user for device_id in self.blocked[node_id] for user in found.get(device_id, ()))


disk_log: Final = logging.getLogger("aliquot.disk")

LOOK_S: Final = 5.0


class DiskSpace:
    """Disk shortages of the server and of agents, as text for people."""

    def __init__(self) -> None:
        self.server: str | None = None
        """The server's own disk; None without a shortage."""
        self.agents: dict[AgentId, str] = {}

    def allows(self, agent_id: AgentId) -> bool:
        """Whether something new may be launched on an agent."""
        return self.server is None and agent_id not in self.agents

    def note(self, agent_id: AgentId, shortage: str | None) -> bool:
        """Record an agent's report; returns whether a shortage began or ended."""
        before = self.agents.pop(agent_id, None)
        if shortage is not None:
            self.agents[agent_id] = shortage
        if (before is None) == (shortage is None):
            return False
        disk_log.warning("agent %s: %s", agent_id, _launch_status(shortage))
        return True

    def note_server(self, shortage: str | None) -> bool:
        """Record a check of the server's own disk; returns whether a shortage began or ended."""
        before, self.server = self.server, shortage
        if (before is None) == (shortage is None):
            return False
        disk_log.warning("%s", _launch_status(shortage))
        return True

    def shortages(self) -> list[str]:
        """All current shortages, one sentence each."""
        own = [] if self.server is None else [_launch_status(self.server)]
        return own + [f"agent {agent_id}: {_launch_status(words)}" for agent_id, words in sorted(self.agents.items())]

    def explained(self, message: str, *, reason: Reason) -> str:
        """The reason why a session waits, with disk shortages added where they may be the cause."""
        if reason not in _CAPACITY_REASONS:
            return message
        if self.server is not None:
            return _launch_status(self.server)
        shortages = self.shortages()
        return "; ".join([message.removesuffix("."), *shortages]) if shortages else message


async def watch(
    space: DiskSpace, *, check: Callable[[], str | None], clock: Clock, on_moved: Callable[[], None]
) -> None:
    """Check the server's own disk every `LOOK_S`.

    Args:
        check: returns a message when space is short, otherwise None. Called in a thread, as it may block.
    """
    while True:
        if space.note_server(await asyncio.to_thread(check)):
            on_moved()
        await clock.sleep(LOOK_S)


def _launch_status(shortage: str | None) -> str:
    return "launches resume, disk space is available again" if shortage is None else f"launches are paused: {shortage}"


KINDS_MAX: Final = 10_000
"""Cached kinds, at most; then the cache is cleared."""


class FeasibleRequests:
    """Cleared when an agent or the allocation options change. Caches feasible kinds only: refusals are rare, and their
    messages are long."""

    def __init__(self, registry: AgentRegistry) -> None:
        self._registry = registry
        self._version = -1
        self._options: AllocationOptions | None = None
        self._agents: Mapping[PoolId, list[AgentRow]] = {}
        self._kinds: set[object] = set()

    @property
    def has_agents(self) -> bool:
        """Whether any agent is registered."""
        self._refresh()
        return bool(self._agents)

    def refusal(self, spec: SessionSpec, *, pool: PoolId, options: AllocationOptions) -> AliquotError | None:
        """Why the agents of a pool could never run this; None when they could, or the pool has no agents."""
        self._refresh()
        if self._options != options or len(self._kinds) >= KINDS_MAX:
            self._options, self._kinds = options, set()
        agents = self._agents.get(pool)
        kind = (
            pool,
            tuple(spec.slots.items()),
            spec.cluster_size,
            spec.cluster_size_min,
            spec.gpu_memory_bytes,
            spec.models,
            tuple(sorted(spec.labels.items())),
            spec.topology,
            spec.preemptible,
            spec.time_limit_ms is not None,
        )
        if agents is None or kind in self._kinds:
            return None
        refusal = impossible(spec, agents, options)
        if refusal is None:
            self._kinds.add(kind)
        return refusal

    def is_possible_on_others(self, session: Session, *, options: AllocationOptions) -> bool:
        """Whether the agents that a session does not exclude could run its request in force."""
        self._refresh()
        others = [row for row in self._agents.get(session.pool, ()) if row.id not in session.excluded_agents]
        request = session.request
        spec = replace(
            session.spec,
            slots=request.slots,
            cluster_size=session.kernels_min,
            gpu_memory_bytes=request.gpu_memory_bytes,
        )
        return bool(others) and impossible(spec, others, options) is None

    def _refresh(self) -> None:
        if self._version != self._registry.version:
            self._version, self._agents, self._kinds = self._registry.version, self._registered(), set()

    def _registered(self) -> Mapping[PoolId, list[AgentRow]]:
        found: dict[PoolId, list[AgentRow]] = {}
        for agent in sorted(self._registry.agents.values(), key=lambda one: natural_key(one.id)):
            if agent.state is not AgentState.LEFT:
                found.setdefault(agent.pool, []).append(self._registry.row(agent, is_open=True))
        return found
