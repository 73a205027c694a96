"""Device layout: the devices of an agent in columns per slot, for fast allocation; fixed until a device changes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from aliquot.core.allocation.occupancy import added, occupancy_on
from aliquot.core.allocation.options import NumaPolicy
from aliquot_schema.ids import DeviceId, SlotName, natural_key
from aliquot_schema.resources.devices import Device, DeviceHealth, ResourceSpec
from aliquot_schema.resources.slots import SlotType

Group = int | None
"""A NUMA node or an island of linked devices; None = unknown, a group of its own."""


def pick(
    ranked: Sequence[int],
    *,
    count: int,
    nodes: Sequence[Group],
    islands: Sequence[Group],
    policy: NumaPolicy,
) -> list[int]:
    """Choose `count` of the devices.

    Args:
        ranked: indices into `nodes` and `islands`, the best first; at least `count`.
        nodes: the NUMA node of each device.
        islands: the set of directly linked devices that each device is in.
    Returns:
        `prefer`: from the smallest island that has enough, and in it (or without one) the smallest NUMA node that has
        enough; if no node has enough, the largest nodes first, so that few are used. `interleave`: nodes round-robin.
    """
    if policy is NumaPolicy.INTERLEAVE:
        return interleaved(ranked, nodes=nodes)[:count]
    narrowed = _smallest_enough(ranked, count=count, groups=islands, nodes=nodes)
    narrowed = _smallest_enough(narrowed, count=count, groups=nodes, nodes=nodes)
    sizes = _sizes(narrowed, nodes)
    if len(sizes) == 1:
        return list(narrowed[:count])
    return _by_group(narrowed, groups=nodes, sizes=sizes)[:count]


def interleaved(ranked: Sequence[int], *, nodes: Sequence[Group]) -> list[int]:
    """Round-robin over nodes: the first device of each node, then the second of each, and so on."""
    seen: Counter[Group] = Counter()
    rounds: list[int] = []
    for index in ranked:
        rounds.append(seen[nodes[index]])
        seen[nodes[index]] += 1
    return [index for _, _, index in sorted(zip(rounds, range(len(ranked)), ranked, strict=True))]


def _smallest_enough(
    ranked: Sequence[int],
    *,
    count: int,
    groups: Sequence[Group],
    nodes: Sequence[Group],
) -> Sequence[int]:
    """The members of the smallest group with at least `count`; all devices if no group has enough.

    Ties go to the group in the smallest NUMA node, then to the best-ranked one.
    """
    sizes = _sizes(ranked, groups)
    if len(sizes) == 1 or max(sizes.values(), default=0) < count:
        return ranked
    crowd = _sizes(ranked, nodes)
    best = min(
        (index for index in ranked if sizes[groups[index]] >= count),
        key=lambda index: (sizes[groups[index]], crowd[nodes[index]]),
        default=None,
    )
    return ranked if best is None else [index for index in ranked if groups[index] == groups[best]]


def _sizes(indices: Sequence[int], groups: Sequence[Group]) -> dict[Group, int]:
    """Number of the devices in each group."""
    sizes: dict[Group, int] = {}
    for index in indices:
        group = groups[index]
        sizes[group] = sizes.get(group, 0) + 1
    return sizes


def _by_group(ranked: Sequence[int], *, groups: Sequence[Group], sizes: Mapping[Group, int]) -> list[int]:
    """Keep groups together: the largest first, then the one with the best-ranked member."""
    first: dict[Group, int] = {}
    for rank, index in enumerate(ranked):
        first.setdefault(groups[index], rank)
    return sorted(ranked, key=lambda index: (-sizes[groups[index]], first[groups[index]]))


class SlotLayout(Struct, frozen=True):
    """The usable devices that offer a slot, in natural order of their names. Columns of equal length."""

    ids: tuple[DeviceId, ...]
    budgets: tuple[int, ...]
    costs: tuple[int, ...]
    """Budget units per base unit."""
    quanta: tuple[int, ...]
    memory_bytes: tuple[int, ...]
    models: tuple[str, ...]
    nodes: tuple[Group, ...]
    islands: tuple[Group, ...]
    """Number of the set of directly linked devices that each device belongs to."""
    places: Mapping[DeviceId, int]
    """Position of each device in the columns."""
    by_node: Mapping[Group, tuple[int, ...]]
    """Positions of the devices of each NUMA node."""
    ids_by_node: Mapping[Group, tuple[DeviceId, ...]]
    """`by_node` as device ids."""
    cost: int
    """The common cost of all devices; 0 = they differ."""
    quantum: int
    """The common quantum of all devices; 0 = they differ."""
    rivals: tuple[tuple[DeviceId, ...], ...]
    """A slice's parent, or a parent's slices: while one of them is held, the device is not free."""
    has_rivals: bool
    is_alike: bool
    """Whether all devices have the same cost and quantum, and none is a slice or has slices."""
    is_units: bool
    """Whether each device is granted whole or not at all, as cores and GPUs of capacity 1 are."""
    is_apart: bool
    """Whether grants of this slot never change what is free of another kind."""
    wholes: tuple[int, ...]
    """Positions of the devices that are not slices."""
    slices: tuple[int, ...]

    def free(self, used: Mapping[DeviceId, int]) -> list[int]:
        """Free amount of each device, in base units of the slot, >= 0."""
        held = used.get
        if self.cost == 1:
            free = [budget - held(device_id, 0) for device_id, budget in zip(self.ids, self.budgets, strict=True)]
        else:
            free = [
                (budget - held(device_id, 0)) // cost
                for device_id, budget, cost in zip(self.ids, self.budgets, self.costs, strict=True)
            ]
        if self.has_rivals:
            for index, rivals in enumerate(self.rivals):
                if any(held(rival) for rival in rivals):
                    free[index] = 0
        return free if not free or min(free) >= 0 else [max(amount, 0) for amount in free]

    def free_sum(self, used: Mapping[DeviceId, int]) -> int:
        """Free amount of all devices together."""
        if self.is_units:
            return len(self.ids) - sum(map(bool, map(used.get, self.ids))) if used else len(self.ids)
        return sum(self.free(used))

    def budget_of(self, given: Mapping[DeviceId, int]) -> dict[DeviceId, int]:
        """Budget units that amounts of this slot hold."""
        return {device_id: amount * self.costs[self.places[device_id]] for device_id, amount in given.items()}

    def nodes_of(self, given: Iterable[DeviceId]) -> frozenset[Group]:
        """The known NUMA nodes of some devices."""
        nodes = [self.nodes[self.places[device_id]] for device_id in given]
        return frozenset(node for node in nodes if node is not None)

    def on_step(self, amount: int) -> Sequence[int]:
        """Positions of the devices whose quantum divides the amount."""
        if self.quantum:
            return range(len(self.ids)) if amount % self.quantum == 0 else ()
        return [index for index, quantum in enumerate(self.quanta) if amount % quantum == 0]


class DeviceLayout(Struct, frozen=True):
    """All slots of an agent. Made once per change of its devices, shared by all maps of them."""

    devices: Mapping[DeviceId, Device]
    slots: Mapping[SlotName, SlotLayout]
    """Healthy devices; a slot whose devices are all unhealthy is present without devices."""
    repaired: Mapping[SlotName, SlotLayout]
    """As `slots`, with unhealthy devices as if they were healthy; missing devices stay out."""
    unique: frozenset[SlotName]

    def held_with(self, used: Mapping[DeviceId, int], spec: ResourceSpec) -> dict[DeviceId, int]:
        """Usage after a grant, from the usage before it."""
        held = dict(used)
        for slot, amounts in spec.items():
            cost = self._cost(slot, amounts)
            if not cost:
                held = added(held, occupancy_on(({slot: amounts},), self.devices))
                continue
            for device_id, amount in amounts.items():
                held[device_id] = held.get(device_id, 0) + amount * cost
        return held

    def budget_sum(self, slot: SlotName, amounts: Mapping[DeviceId, int]) -> int:
        """Total budget units that amounts of a slot hold."""
        cost = self._cost(slot, amounts)
        return cost * sum(amounts.values()) if cost else sum(occupancy_on(({slot: amounts},), self.devices).values())

    def _cost(self, slot: SlotName, amounts: Mapping[DeviceId, int]) -> int:
        """Budget units per base unit on these devices; 0 if it differs or is unknown."""
        columns = self.slots.get(slot)
        return columns.cost if columns is not None and amounts.keys() <= columns.places.keys() else 0

    @classmethod
    def of(cls, devices: Iterable[Device], *, slot_types: Mapping[SlotName, SlotType] | None = None) -> "DeviceLayout":
        """Lay out an agent's devices.

        Args:
            devices: in any order.
            slot_types: only needed for slots of type `unique`.
        """
        ordered = sorted(devices, key=lambda device: (natural_key(device.name), device.id))
        slots = _slots(ordered, usable=frozenset({DeviceHealth.HEALTHY}))
        broken = any(device.health is not DeviceHealth.HEALTHY for device in ordered)
        usable = frozenset({DeviceHealth.HEALTHY, DeviceHealth.UNHEALTHY})
        return cls(
            devices={device.id: device for device in ordered},
            slots=slots,
            repaired=_slots(ordered, usable=usable) if broken else slots,
            unique=frozenset(slot for slot, kind in (slot_types or {}).items() if kind is SlotType.UNIQUE),
        )


def islands_of(devices: Sequence[Device]) -> dict[DeviceId, Group]:
    """Number the connected sets of linked devices; a link counts in both directions."""
    neighbours: dict[DeviceId, set[DeviceId]] = {device.id: set() for device in devices}
    for device in devices:
        for other in device.linked_to:
            if other in neighbours:
                neighbours[device.id].add(other)
                neighbours[other].add(device.id)
    islands: dict[DeviceId, Group] = {}
    for number, device in enumerate(devices):
        if device.id not in islands:
            islands.update(dict.fromkeys(_reach(device.id, neighbours=neighbours), number))
    return islands


def _slots(devices: Sequence[Device], *, usable: frozenset[DeviceHealth]) -> dict[SlotName, SlotLayout]:
    names = sorted({slot for device in devices for slot in device.costs})
    rivals = _rivals(devices)
    islands = islands_of(devices)
    mixed = _mixed(devices, rivals)
    return {
        slot: _slot(
            slot,
            devices=[device for device in devices if device.health in usable and device.capacity(slot)],
            rivals=rivals,
            islands=islands,
            is_apart=all(device.id not in mixed for device in devices if slot in device.costs),
        )
        for slot in names
    }


def _slot(
    slot: SlotName,
    *,
    devices: Sequence[Device],
    rivals: Mapping[DeviceId, tuple[DeviceId, ...]],
    islands: Mapping[DeviceId, Group],
    is_apart: bool,
) -> SlotLayout:
    quanta = tuple(device.quanta.get(slot, 1) for device in devices)
    costs = tuple(device.costs[slot] for device in devices)
    cost, quantum = _same(costs), _same(quanta)
    has_rivals = any(rivals[device.id] for device in devices)
    is_alike = bool(cost and quantum) and not has_rivals and all(device.parent is None for device in devices)
    by_node: dict[Group, list[int]] = {}
    for index, device in enumerate(devices):
        by_node.setdefault(device.numa_node, []).append(index)
    return SlotLayout(
        ids=tuple(device.id for device in devices),
        budgets=tuple(device.budget for device in devices),
        costs=costs,
        cost=cost,
        quanta=quanta,
        quantum=quantum,
        places={device.id: index for index, device in enumerate(devices)},
        by_node={node: tuple(indices) for node, indices in by_node.items()},
        ids_by_node={node: tuple(devices[index].id for index in indices) for node, indices in by_node.items()},
        memory_bytes=tuple(device.memory_bytes for device in devices),
        models=tuple(device.model for device in devices),
        nodes=tuple(device.numa_node for device in devices),
        islands=tuple(islands[device.id] for device in devices),
        rivals=tuple(rivals[device.id] for device in devices),
        has_rivals=has_rivals,
        is_alike=is_alike,
        is_units=is_alike and quantum == 1 and all(device.budget == cost for device in devices),
        is_apart=is_apart,
        wholes=tuple(index for index, device in enumerate(devices) if device.parent is None),
        slices=tuple(index for index, device in enumerate(devices) if device.parent is not None),
    )


def _same(values: Sequence[int]) -> int:
    """The common value; 0 if they differ or there are none."""
    return values[0] if len(set(values)) == 1 else 0


def _rivals(devices: Sequence[Device]) -> dict[DeviceId, tuple[DeviceId, ...]]:
    rivals: dict[DeviceId, list[DeviceId]] = {device.id: [] for device in devices}
    for device in devices:
        if device.parent is not None:
            rivals[device.id].append(device.parent)
            rivals.setdefault(device.parent, []).append(device.id)
    return {device_id: tuple(others) for device_id, others in rivals.items()}


def _mixed(devices: Sequence[Device], rivals: Mapping[DeviceId, tuple[DeviceId, ...]]) -> frozenset[DeviceId]:
    """Devices that offer slots of several kinds, directly or through their rivals."""
    kinds = {device.id: frozenset(slot.partition(".")[0] for slot in device.costs) for device in devices}
    nothing: frozenset[str] = frozenset()
    return frozenset(
        device_id
        for device_id, own in kinds.items()
        if len(own.union(*(kinds.get(rival, nothing) for rival in rivals[device_id]))) > 1
    )


def _reach(start: DeviceId, *, neighbours: Mapping[DeviceId, set[DeviceId]]) -> list[DeviceId]:
    reached = {start: None}
    frontier = [start]
    while frontier:
        for other in sorted(neighbours[frontier.pop()]):
            if other not in reached:
                reached[other] = None
                frontier.append(other)
    return list(reached)
