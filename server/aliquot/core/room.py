"""Room: what is still free while a pass places one session after the other."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

from aliquot.core.allocation.device_map import allocate
from aliquot.core.allocation.occupancy import Occupancy, added, occupancy_on
from aliquot.core.allocation.options import AllocationOptions
from aliquot.core.holders import Holders
from aliquot.core.memo import Memo
from aliquot.core.plan import KernelPlacement
from aliquot.core.policy import Policy
from aliquot.core.roster import Roster, Scope, scope_of
from aliquot.core.snapshot import AgentRow, PendingRow, Snapshot
from aliquot_schema.devices import ResourceSpec
from aliquot_schema.errors import AllocationRefused, InvalidRequest
from aliquot_schema.ids import DeviceId, NodeId, SessionId, SlotName

NOTHING: Final[dict[DeviceId, int]] = {}
"""What is held on a node that nobody has a part of."""


class Room:
    """Begins as the snapshot has it and gets smaller with every placement. The snapshot is not changed."""

    def __init__(self, snapshot: Snapshot, policy: Policy, *, memo: Memo | None = None) -> None:
        self._memo = memo if memo is not None else Memo()
        self.roster: Final[Roster] = self._memo.roster(snapshot.agents)
        self.agents = self.roster.agents
        # Mappings of the snapshot are shared until a node is given something; they are never changed in place.
        self._used: dict[NodeId, Mapping[DeviceId, int]] = dict(snapshot.used)
        self._allocation = policy.allocation
        self._options: dict[tuple[int | None, tuple[str, ...]], AllocationOptions] = {}
        self._open_agents: dict[Scope, Sequence[AgentRow]] = {}
        self._most_free: dict[tuple[SlotName, Scope], int] = {}
        self._free_milli: dict[NodeId, int] = {}
        self._free_milli_sum = 0
        self._uncounted: dict[NodeId, None] = dict.fromkeys(self.roster.open_on)
        self._held = snapshot.holders
        self._taken: list[tuple[SessionId, KernelPlacement]] = []

    def open_agents(self, row: PendingRow) -> Sequence[AgentRow]:
        """Agents that this session may be given something on now, in natural order of their ids."""
        scope = scope_of(row)
        found = self._open_agents.get(scope)
        if found is None:
            found = self._open_agents[scope] = [self.roster.open[number] for number in self.roster.allowed(row)]
        return found

    @property
    def memo(self) -> Memo:
        """What earlier passes found out."""
        return self._memo

    @property
    def used(self) -> Mapping[NodeId, Mapping[DeviceId, int]]:
        """Budget units held, by node. Not to be changed."""
        return self._used

    @cached_property
    def holders(self) -> Holders:
        """Sessions that hold a part of a device, those placed in this pass included."""
        return Holders(self._memo.holders(self._held), self._taken, roster=self.roster)

    def free_milli(self) -> int:
        """What is left of all accelerators, or more, in the unit of `LEAST_MILLI` of the queue."""
        known = self._memo.free_milli
        for node_id in self._uncounted:
            used = self.used_on(node_id)
            before = known.get(node_id)
            if before is None or before[0] is not used:
                before = known[node_id] = used, self._free_milli_on(node_id, used)
            self._free_milli_sum += before[1] - self._free_milli.get(node_id, 0)
            self._free_milli[node_id] = before[1]
        self._uncounted.clear()
        return self._free_milli_sum

    def most_free(self, slot: SlotName, row: PendingRow) -> int:
        """What the agent with most of a slot has left, of those that the row may be put on."""
        key = slot, scope_of(row)
        most = self._most_free.get(key)
        if most is None:
            totals = self._memo.totals(slot, row.where.models)
            totals.follow(self._held_by_agent())
            free, allowed = totals.free, self.roster.allowed(row)
            most = max(free if len(allowed) == len(free) else [free[number] for number in allowed], default=0)
            self._most_free[key] = most
        return most

    def used_on(self, node_id: NodeId) -> Mapping[DeviceId, int]:
        """Budget units held on a node."""
        return self._used.get(node_id, NOTHING)

    def try_kernel(self, row: PendingRow, agent: AgentRow, used: Occupancy) -> ResourceSpec | None:
        """What one kernel would be given on an agent whose node is held to `used`; None when it is refused."""
        layout = agent.layout
        try:
            return allocate(
                dict(row.request),
                slots=layout.slots,
                used=used,
                unique=layout.unique,
                options=self.options_of(row),
            )
        except (AllocationRefused, InvalidRequest):
            return None

    def options_of(self, row: PendingRow) -> AllocationOptions:
        """How devices are chosen for this row inside an agent."""
        key = row.gpu_memory_bytes, row.where.models
        found = self._options.get(key)
        if found is None:
            found = replace(self._allocation, gpu_memory_bytes=row.gpu_memory_bytes, models=row.where.models)
            self._options[key] = found
        return found

    def agents_of(self, kernels: Iterable[KernelPlacement]) -> list[AgentRow]:
        """The agents that kernels are on."""
        return [self.roster.by_id[kernel.agent_id] for kernel in kernels]

    def with_spec(self, agent: AgentRow, used: Occupancy, spec: ResourceSpec) -> dict[DeviceId, int]:
        """`used` after a grant on that agent."""
        return added(used, occupancy_on((spec,), agent.layout.devices))

    def take(self, session_id: SessionId, kernels: Sequence[KernelPlacement]) -> None:
        """Count a session's kernels as placed."""
        for kernel in kernels:
            used = self.used_on(kernel.node_id)
            self._used[kernel.node_id] = self.with_spec(self.roster.by_id[kernel.agent_id], used, kernel.spec)
            self._uncounted[kernel.node_id] = None
        self._most_free.clear()
        self._taken += ((session_id, kernel) for kernel in kernels)

    def _held_by_agent(self) -> list[Occupancy]:
        """What is held on the node of each open agent."""
        return list(map(self.used_on, self.roster.open_nodes))

    def _free_milli_on(self, node_id: NodeId, used: Occupancy) -> int:
        """Each device counts once, by the slot that makes most of it."""
        return sum(
            max(max((budget - used.get(device_id, 0)) // cost * unit for cost, unit in units), 0)
            for device_id, budget, units in self.roster.accelerators_on[node_id]
        )
