"""Room: what is still free while a pass places one session after the other."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

from aliquot.core.allocation.device_map import allocate
from aliquot.core.allocation.occupancy import Occupancy
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
        # Mappings of the snapshot are shared until a node is given something; they are never changed in place.
        self._used: dict[NodeId, Mapping[DeviceId, int]] = dict(snapshot.used)
        self._allocation = policy.allocation
        self._options: dict[tuple[int | None, tuple[str, ...]], AllocationOptions] = {}
        self._open_agents: dict[Scope, Sequence[AgentRow]] = {}
        self._most_free: dict[tuple[SlotName, Scope], int] = {}
        self._free_milli: int | None = None
        """Once somebody has asked for it."""
        self._held = snapshot.holders
        self._taken: list[tuple[SessionId, KernelPlacement]] = []

    def open_agents(self, row: PendingRow) -> Sequence[AgentRow]:
        """Agents that this session may be given something on now, in natural order of their ids."""
        scope = scope_of(row)
        found = self._open_agents.get(scope)
        if found is None:
            allowed, agents = self.roster.allowed(row), self.roster.open
            found = agents if len(allowed) == len(agents) else [agents[number] for number in allowed]
            self._open_agents[scope] = found
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
        if self._free_milli is None:
            self._free_milli = self._memo.free_milli.count(self._used)
        return self._free_milli

    def most_free(self, slot: SlotName, row: PendingRow) -> int:
        """What the agent with most of a slot has left, of those that the row may be put on."""
        key = slot, scope_of(row)
        most = self._most_free.get(key)
        if most is None:
            totals = self._memo.totals(slot, row.where.models)
            totals.follow(list(map(self._used.get, self.roster.open_nodes)))
            free, allowed = totals.free, self.roster.allowed(row)
            most = max(free if len(allowed) == len(free) else [free[number] for number in allowed], default=0)
            self._most_free[key] = most
        return most

    def used_on(self, node_id: NodeId) -> Mapping[DeviceId, int]:
        """Budget units held on a node."""
        return self._used.get(node_id, NOTHING)

    def try_kernel(
        self, row: PendingRow, agent: AgentRow, used: Occupancy, *, liked: DeviceId | None = None
    ) -> ResourceSpec | None:
        """What one kernel would be given on an agent whose node is held to `used`; None when it is refused.

        Args:
            liked: the accelerator that a share must go on; None = any.
        """
        layout = agent.layout
        try:
            return allocate(
                dict(row.request),
                slots=layout.slots,
                used=used,
                unique=layout.unique,
                options=self.options_of(row),
                liked=liked,
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

    def with_spec(self, agent: AgentRow, used: Occupancy, spec: ResourceSpec) -> dict[DeviceId, int]:
        """`used` after a grant on that agent."""
        return agent.layout.held_with(used, spec)

    def take(self, session_id: SessionId, kernels: Sequence[KernelPlacement]) -> None:
        """Count a session's kernels as placed."""
        for kernel in kernels:
            before = self.used_on(kernel.node_id)
            now = self.with_spec(self.roster.by_id[kernel.agent_id], before, kernel.spec)
            self._used[kernel.node_id] = now
            if self._free_milli is not None:
                self._free_milli -= self._memo.free_milli.taken(kernel.node_id, kernel.spec, before=before, now=now)
        self._most_free.clear()
        self._taken += ((session_id, kernel) for kernel in kernels)
