"""Room: what is still free while a pass places one session after the other."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from aliquot.core.allocation.device_map import allocate
from aliquot.core.allocation.occupancy import Occupancy, added, occupancy_on
from aliquot.core.plan import KernelPlacement
from aliquot.core.policy import Policy
from aliquot.core.snapshot import AgentRow, PendingRow, Snapshot, milli_of
from aliquot_schema.devices import ResourceSpec
from aliquot_schema.errors import AllocationRefused, InvalidRequest
from aliquot_schema.ids import DeviceId, NodeId, SessionId
from aliquot_schema.natural_order import natural_key


class Room:
    """Begins as the snapshot has it and gets smaller with every placement. The snapshot is not changed."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self.agents = tuple(sorted(snapshot.agents, key=lambda agent: natural_key(agent.id)))
        self._used: dict[NodeId, dict[DeviceId, int]] = {node: dict(used) for node, used in snapshot.used.items()}
        self._options = policy.allocation
        self._holders = snapshot.holders
        self._taken: dict[tuple[NodeId, DeviceId], list[SessionId]] = defaultdict(list)
        self._agents_on: dict[NodeId, list[AgentRow]] = defaultdict(list)
        for agent in self.agents:
            if agent.is_open:
                self._agents_on[agent.node_id].append(agent)
        self._free_milli: dict[NodeId, int] = {}
        self._free_milli_sum = 0
        self._uncounted: dict[NodeId, None] = dict.fromkeys(self._agents_on)
        self._by_id = {agent.id: agent for agent in self.agents}

    def open_agents(self, row: PendingRow) -> list[AgentRow]:
        """Agents that this session may be given something on now, in natural order of their ids."""
        return [agent for agent in self.agents if agent.is_open and agent.id not in row.excluded_agents]

    @property
    def used(self) -> Mapping[NodeId, Mapping[DeviceId, int]]:
        """Budget units held, by node. Not to be changed."""
        return self._used

    def free_milli(self) -> int:
        """What is left of all accelerators, or more, in the unit of `LEAST_MILLI` of the queue."""
        for node_id in self._uncounted:
            counted = self._free_milli_on(node_id)
            self._free_milli_sum += counted - self._free_milli.get(node_id, 0)
            self._free_milli[node_id] = counted
        self._uncounted.clear()
        return self._free_milli_sum

    def used_on(self, node_id: NodeId) -> dict[DeviceId, int]:
        """Budget units held on a node."""
        return self._used.get(node_id, {})

    def try_kernel(self, row: PendingRow, agent: AgentRow, used: Occupancy) -> ResourceSpec | None:
        """What one kernel would be given on an agent whose node is held to `used`; None when it is refused."""
        options = replace(self._options, gpu_memory_bytes=row.gpu_memory_bytes)
        layout = agent.layout
        try:
            return allocate(dict(row.request), slots=layout.slots, used=used, unique=layout.unique, options=options)
        except (AllocationRefused, InvalidRequest):
            return None

    def with_spec(self, agent: AgentRow, used: Occupancy, spec: ResourceSpec) -> dict[DeviceId, int]:
        """`used` after a grant on that agent."""
        return added(used, occupancy_on((spec,), agent.layout.devices))

    def holders_of(self, node_id: NodeId, device_id: DeviceId) -> list[SessionId]:
        """Sessions that hold a part of a device, those placed in this pass included."""
        return [*self._holders.get((node_id, device_id), ()), *self._taken.get((node_id, device_id), ())]

    def take(self, session_id: SessionId, kernels: Sequence[KernelPlacement]) -> None:
        """Count a session's kernels as placed."""
        for kernel in kernels:
            used = self.used_on(kernel.node_id)
            self._used[kernel.node_id] = self.with_spec(self._by_id[kernel.agent_id], used, kernel.spec)
            self._uncounted[kernel.node_id] = None
            for amounts in kernel.spec.values():
                for device_id in amounts:
                    self._taken[kernel.node_id, device_id].append(session_id)

    def _free_milli_on(self, node_id: NodeId) -> int:
        """Agents of a node may share devices: each counts once, by the slot that makes most of it."""
        used = self.used_on(node_id)
        found: dict[DeviceId, int] = {}
        for agent in self._agents_on[node_id]:
            for slot, columns in agent.layout.slots.items():
                if unit := milli_of(slot):
                    for device_id, budget, cost in zip(columns.ids, columns.budgets, columns.costs, strict=True):
                        left = (budget - used.get(device_id, 0)) // cost * unit
                        found[device_id] = max(left, found.get(device_id, 0))
        return sum(found.values())
