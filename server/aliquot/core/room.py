"""Room: what is still free while a pass places one session after the other."""

from collections.abc import Sequence
from dataclasses import replace

from aliquot.core.allocation.device_map import allocate
from aliquot.core.allocation.occupancy import added, occupancy_of
from aliquot.core.plan import KernelPlacement
from aliquot.core.policy import Policy
from aliquot.core.snapshot import AgentRow, PendingRow, Snapshot
from aliquot_schema.devices import ResourceSpec
from aliquot_schema.errors import AllocationRefused, InvalidRequest
from aliquot_schema.ids import DeviceId, NodeId
from aliquot_schema.natural_order import natural_key


class Room:
    """Begins as the snapshot has it and gets smaller with every placement. The snapshot is not changed."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self.agents = tuple(sorted(snapshot.agents, key=lambda agent: natural_key(agent.id)))
        self._used: dict[NodeId, dict[DeviceId, int]] = {node: dict(used) for node, used in snapshot.used.items()}
        self._options = policy.allocation

    def open_agents(self, row: PendingRow) -> list[AgentRow]:
        """Agents that this session may be given something on now, in natural order of their ids."""
        return [agent for agent in self.agents if agent.is_open and agent.id not in row.excluded_agents]

    def used_on(self, node_id: NodeId) -> dict[DeviceId, int]:
        """Budget units held on a node."""
        return self._used.get(node_id, {})

    def try_kernel(self, row: PendingRow, agent: AgentRow, used: dict[DeviceId, int]) -> ResourceSpec | None:
        """What one kernel would be given on an agent whose node is held to `used`; None when it is refused."""
        options = replace(self._options, gpu_memory_bytes=row.gpu_memory_bytes)
        layout = agent.layout
        try:
            return allocate(dict(row.request), slots=layout.slots, used=used, unique=layout.unique, options=options)
        except (AllocationRefused, InvalidRequest):
            return None

    def with_spec(self, agent: AgentRow, used: dict[DeviceId, int], spec: ResourceSpec) -> dict[DeviceId, int]:
        """`used` after a grant on that agent."""
        return added(used, occupancy_of((spec,), agent.layout.devices.values()))

    def take(self, kernels: Sequence[KernelPlacement]) -> None:
        """Count placements as held."""
        agents = {agent.id: agent for agent in self.agents}
        for kernel in kernels:
            used = self.used_on(kernel.node_id)
            self._used[kernel.node_id] = self.with_spec(agents[kernel.agent_id], used, kernel.spec)
