"""Free capacity: what is still free while a pass places one session after another."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

from msgspec.structs import replace

from aliquot.core.allocation.device_map import allocate
from aliquot.core.allocation.occupancy import Occupancy
from aliquot.core.allocation.options import AllocationOptions
from aliquot.core.model.agent_index import AgentIndex, Scope, scope_of
from aliquot.core.model.plan import KernelPlacement
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import Kind, Queue
from aliquot.core.model.snapshot import AgentRow, PendingRow, Snapshot, accelerators_first
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.holders import Holders
from aliquot_schema.bookings import BookedDevice
from aliquot_schema.errors import AllocationRefused, InvalidRequest
from aliquot_schema.ids import DeviceId, NodeId, SessionId, SlotName
from aliquot_schema.reasons import Evidence, Reason, Verdict
from aliquot_schema.resources.devices import ResourceSpec
from aliquot_schema.resources.slots import format_amount
from aliquot_schema.sessions import Topology

NAMED_MAX: Final = 16
"""Sessions named as holders."""
NOTHING: Final[dict[DeviceId, int]] = {}
"""Usage of an idle node."""


class FreeCapacity:
    """Starts as in the snapshot and shrinks with every placement. The snapshot is not changed."""

    def __init__(self, snapshot: Snapshot, policy: Policy, *, cache: PassCache | None = None) -> None:
        self._cache = cache if cache is not None else PassCache()
        self.agent_index: Final[AgentIndex] = self._cache.agent_index(snapshot.agents)
        # A node shares its mapping with the snapshot until a placement on it; mappings are never changed in place.
        self._used: dict[NodeId, Mapping[DeviceId, int]] = dict(snapshot.used)
        self._allocation = policy.allocation
        self._options: dict[tuple[int | None, tuple[str, ...]], AllocationOptions] = {}
        self._open_agents: dict[Scope, Sequence[AgentRow]] = {}
        self._most_free: dict[tuple[SlotName, Scope], int] = {}
        self._oldest: dict[tuple[tuple[SlotName, ...], Scope, int], tuple[SessionId, ...]] = {}
        self._held_by_agent: list[Occupancy | None] | None = None
        """Usage of the node of each open agent; None until first read after a change."""
        self._free_milli: int | None = None
        """None until first read."""
        self._held = snapshot.holders
        self._taken: list[tuple[SessionId, KernelPlacement]] = []

    def open_agents(self, row: PendingRow) -> Sequence[AgentRow]:
        """Open agents that the session may be placed on, in natural order of their ids."""
        scope = scope_of(row)
        found = self._open_agents.get(scope)
        if found is None:
            allowed, agents = self.agent_index.allowed(row), self.agent_index.open
            found = agents if len(allowed) == len(agents) else [agents[number] for number in allowed]
            self._open_agents[scope] = found
        return found

    @property
    def cache(self) -> PassCache:
        """Results of earlier passes."""
        return self._cache

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was placed on it."""
        return not self._taken

    @cached_property
    def shortages(self) -> dict[int, tuple[Kind, int, Verdict]]:
        """See `cache.Shortages`; read it while the capacity is untouched."""
        return self._cache.shortages(self._used, self._held)

    @property
    def used(self) -> Mapping[NodeId, Mapping[DeviceId, int]]:
        """Budget units held, by node and device. Read only."""
        return self._used

    def oldest_holders(self, row: PendingRow, *, most: int) -> tuple[SessionId, ...]:
        """The oldest sessions, at most `most`, that hold what a row asks for, including those placed in this pass."""
        slots = tuple(slot for slot, _ in row.request)
        key = slots, scope_of(row), most
        found = self._oldest.get(key)
        if found is None:
            found = self._oldest[key] = self._holders.oldest(slots, self.open_agents(row), most=most)
        return found

    @cached_property
    def _holders(self) -> Holders:
        return Holders(self._cache.holders(self._held), self._taken, agent_index=self.agent_index)

    def free_milli(self) -> int:
        """Upper bound of all free accelerators, in the unit of the queue's `LEAST_MILLI`."""
        if self._free_milli is None:
            self._free_milli = self._cache.free_milli.count(self._used)
        return self._free_milli

    def most_free(self, slot: SlotName, row: PendingRow) -> int:
        """The largest free amount of a slot on one agent that the row may be placed on, in base units."""
        key = slot, scope_of(row)
        most = self._most_free.get(key)
        if most is None:
            totals = self._cache.totals(slot, row.where.models)
            if self._held_by_agent is None:
                self._held_by_agent = list(map(self._used.get, self.agent_index.open_nodes))
            totals.follow(self._held_by_agent)
            free, allowed = totals.free, self.agent_index.allowed(row)
            most = max(free if len(allowed) == len(free) else [free[number] for number in allowed], default=0)
            self._most_free[key] = most
        return most

    def used_on(self, node_id: NodeId) -> Mapping[DeviceId, int]:
        """Budget units held on a node."""
        return self._used.get(node_id, NOTHING)

    def try_kernel(
        self, row: PendingRow, agent: AgentRow, used: Occupancy, *, preferred: DeviceId | None = None
    ) -> ResourceSpec | None:
        """Devices that one kernel would get on an agent with `used` held on its node; None if it does not fit.

        Args:
            preferred: the accelerator that a share must be on; None = any.
        """
        layout = agent.layout
        if row.where.closed_devices:
            used = _closed(agent, used, row.where.closed_devices)
        try:
            return allocate(
                dict(row.request),
                slots=layout.slots,
                used=used,
                unique=layout.unique,
                options=self.options_of(row),
                preferred=preferred,
            )
        except (AllocationRefused, InvalidRequest):
            return None

    def options_of(self, row: PendingRow) -> AllocationOptions:
        """The allocation options for a row: the policy's, with the row's memory and models."""
        key = row.gpu_memory_bytes, row.where.models
        found = self._options.get(key)
        if found is None:
            found = replace(self._allocation, gpu_memory_bytes=row.gpu_memory_bytes, models=row.where.models)
            self._options[key] = found
        return found

    def take(self, session_id: SessionId, kernels: Sequence[KernelPlacement]) -> None:
        """Count a session's kernels as placed."""
        for kernel in kernels:
            before = self.used_on(kernel.node_id)
            now = self.agent_index.by_id[kernel.agent_id].layout.held_with(before, kernel.spec)
            self._used[kernel.node_id] = now
            if self._free_milli is not None:
                self._free_milli -= self._cache.free_milli.consumed(kernel.node_id, kernel.spec, before=before, now=now)
        self._held_by_agent = None
        self._most_free.clear()
        self._oldest.clear()
        self._taken += ((session_id, kernel) for kernel in kernels)


def _closed(agent: AgentRow, used: Occupancy, closed: Iterable[BookedDevice]) -> Occupancy:
    """Usage with closed devices of an agent's node counted as held."""
    budgets = {
        device_id: agent.layout.devices[device_id].budget
        for node_id, device_id in closed
        if node_id == agent.node_id and device_id in agent.layout.devices
    }
    return {**used, **budgets} if budgets else used


def shortage(row: PendingRow, capacity: FreeCapacity, *, fits_kernels: int) -> Verdict:
    """Why a row does not fit: part of its gang does, a slot is short on every agent, or free capacity is fragmented."""
    blocked_by = capacity.oldest_holders(row, most=NAMED_MAX)
    if fits_kernels:
        is_one_switch = row.where.topology is Topology.REQUIRE
        evidence = Evidence(fits_kernels=fits_kernels, is_one_switch=is_one_switch, blocked_by=blocked_by)
        return Verdict(reason=Reason.GANG_INCOMPLETE, evidence=evidence)
    for slot, amount in accelerators_first(row.request):
        most = capacity.most_free(slot, row)
        if most < amount:
            evidence = Evidence(
                slot=slot,
                requested=format_amount(slot, amount),
                available=format_amount(slot, most),
                blocked_by=blocked_by,
            )
            return Verdict(reason=Reason.INSUFFICIENT, evidence=evidence)
    return Verdict(reason=Reason.FRAGMENTED, evidence=Evidence(blocked_by=blocked_by))


def kind_shortage(row: PendingRow, capacity: FreeCapacity, *, kind: int, queue: Queue, fits_kernels: int) -> Verdict:
    """`shortage` of a kind of rows; that of the pass before if nothing was placed or released since."""
    if not capacity.is_untouched:
        return shortage(row, capacity, fits_kernels=fits_kernels)
    key, found = queue.kinds()[kind], capacity.shortages.get(kind)
    if found is None or found[0] is not key or found[1] != fits_kernels:
        found = capacity.shortages[kind] = key, fits_kernels, shortage(row, capacity, fits_kernels=fits_kernels)
    return found[2]
