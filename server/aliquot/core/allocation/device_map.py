"""Device map: the devices of one agent and how much of them is held, as an immutable value that allocates."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from aliquot.core.allocation import accelerators, host, refusals
from aliquot.core.allocation.layout import DeviceLayout, Group, SlotLayout
from aliquot.core.allocation.occupancy import Occupancy, added, occupancy_of, occupancy_on, removed
from aliquot.core.allocation.options import DEFAULT_OPTIONS, AllocationOptions, is_of_model
from aliquot_schema.errors import AllocationRefused, InvalidRequest
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.resources.devices import Device, ResourceSpec
from aliquot_schema.resources.slots import Amount, SlotType, Unlimited, is_accelerator

Refusal = AllocationRefused | InvalidRequest


class FreeAmount(Struct, frozen=True):
    """Free amount of a slot on one agent, in base units.

    A request above `total` is refused, and above `largest` too if it may not be split. A smaller one may still be
    refused for its quantum or memory.
    """

    total: int
    largest: int
    """The largest free amount on one device."""


class DeviceMap(Struct, frozen=True):
    """The devices of an agent, shared by all maps of them, and the budget units held of each."""

    layout: DeviceLayout
    used: Occupancy
    """Budget units held. Idle devices are missing; devices that left the layout may be present."""

    @classmethod
    def of(
        cls,
        devices: Iterable[Device],
        *,
        specs: Iterable[ResourceSpec] = (),
        slot_types: Mapping[SlotName, SlotType] | None = None,
    ) -> "DeviceMap":
        """The map of an agent on which `specs` are held. Make a new one after a device changed: costs may differ."""
        devices = tuple(devices)
        return cls(DeviceLayout.of(devices, slot_types=slot_types), occupancy_of(specs, devices))

    def allocate(
        self,
        request: Mapping[SlotName, Amount],
        *,
        options: AllocationOptions = DEFAULT_OPTIONS,
    ) -> ResourceSpec:
        """Choose exact devices for one kernel; changes nothing, see `apply`.

        Args:
            request: amounts in base units; zeros are ignored, even of unknown slots.
        Returns:
            The granted amounts, which add up to the request exactly. Deterministic, whatever the order of the mappings.
            Accelerators are chosen first (see `accelerators.allocate_accelerator`), then CPU cores near them, then
            memory.
        Raises:
            NotMultipleOfQuantum, InsufficientResource, FractionalResourceFragmented, InvalidResourceCombination,
            UnsupportedResource: the request does not fit now.
            InvalidAmount: an amount is unlimited.
        """
        return allocate(request, slots=self.layout.slots, used=self.used, unique=self.layout.unique, options=options)

    def apply(self, spec: ResourceSpec) -> "DeviceMap":
        """The map after a grant. Unchecked, as a device that shrank may be overcommitted; see `check`."""
        return DeviceMap(self.layout, added(self.used, self.budget_of(spec)))

    def release(self, spec: ResourceSpec) -> "DeviceMap":
        """The map after a grant of it was released."""
        return DeviceMap(self.layout, removed(self.used, self.budget_of(spec)))

    def budget_of(self, spec: ResourceSpec) -> Occupancy:
        """Budget units that a spec holds."""
        return occupancy_on((spec,), self.layout.devices)

    def check(self, spec: ResourceSpec) -> None:
        """Check that a spec chosen on another map can be granted on this one.

        Raises:
            UnsupportedResource: a device is gone, unhealthy, or does not offer the slot.
            InsufficientResource: a device has less free, or its parent or a slice of it is held.
            NotMultipleOfQuantum: an amount is not a multiple of the device's quantum.
        """
        used = dict(self.used)
        for slot, amounts in spec.items():
            layout = self.layout.slots.get(slot)
            free = layout.free(used) if layout else []
            for device_id, amount in amounts.items():
                if layout is None or device_id not in layout.places:
                    raise refusals.device_not_offered(slot, device_id=device_id, requested=amount)
                index = layout.places[device_id]
                if amount % layout.quanta[index]:
                    raise refusals.off_quantum(slot, requested=amount, quanta=layout.quanta[index : index + 1])
                available = 0 if any(used.get(rival) for rival in layout.rivals[index]) else free[index]
                if available < amount:
                    raise refusals.device_not_free(slot, device_id=device_id, requested=amount, available=available)
                used[device_id] = used.get(device_id, 0) + amount * layout.costs[index]

    def free(self, slot: SlotName, *, models: tuple[str, ...] = ()) -> FreeAmount:
        """Free amount of a slot on accelerators of some models; of a device and its slices, the larger counts."""
        layout = self.layout.slots.get(slot)
        if layout is None:
            return FreeAmount(0, 0)
        room = layout.free(self.used)
        if models and is_accelerator(slot):
            room = [free if is_of_model(model, models) else 0 for free, model in zip(room, layout.models, strict=True)]
        if not layout.has_rivals:
            return FreeAmount(sum(room), max(room, default=0))
        cut: Counter[DeviceId] = Counter()
        for index in layout.slices:
            cut[self.layout.devices[layout.ids[index]].parent or layout.ids[index]] += room[index]
        whole = sum(max(room[index], cut.pop(layout.ids[index], 0)) for index in layout.wholes)
        return FreeAmount(whole + cut.total(), max(room, default=0))


def allocate(
    request: Mapping[SlotName, Amount],
    *,
    slots: Mapping[SlotName, SlotLayout],
    used: Occupancy,
    unique: frozenset[SlotName] = frozenset(),
    options: AllocationOptions = DEFAULT_OPTIONS,
    preferred: DeviceId | None = None,
) -> ResourceSpec:
    """`DeviceMap.allocate` on its parts. With a preferred device, the first accelerator slot must be granted on it."""
    wanted = _wanted(request, slots=slots, unique=unique)
    spec: dict[SlotName, dict[DeviceId, int]] = {}
    near: frozenset[Group] = frozenset()
    for number, (slot, amount) in enumerate(wanted, start=1):
        layout = slots[slot]
        if is_accelerator(slot):
            given = accelerators.allocate_accelerator(
                slot, amount=amount, layout=layout, used=used, options=options, preferred=preferred
            )
            preferred = None
        else:
            given = host.allocate_host(slot, amount=amount, layout=layout, used=used, near=near, numa=options.numa)
        spec[slot] = given
        if number < len(wanted):
            used = used if layout.is_apart else added(used, layout.budget_of(given))
            if is_accelerator(slot):
                near |= layout.nodes_of(given)
            elif not near:
                near = layout.nodes_of(given)
    return spec


def _wanted(
    request: Mapping[SlotName, Amount],
    *,
    slots: Mapping[SlotName, SlotLayout],
    unique: frozenset[SlotName],
) -> Sequence[tuple[SlotName, int]]:
    """The amounts above zero, accelerators first, then by name."""
    fast = _in_order(tuple(request.items())) if not unique else None
    if fast is not None and all(slot in slots for slot, _ in fast):
        return fast
    wanted: list[tuple[SlotName, int]] = []
    kinds: dict[str, SlotName] = {}
    for slot, amount in sorted(request.items(), key=_order):
        if isinstance(amount, Unlimited):
            raise refusals.unlimited(slot)
        if amount == 0:
            continue
        if slot not in slots:
            raise refusals.unsupported(slot, requested=amount)
        if amount > 1 and slot in unique:
            raise refusals.not_unique(slot, requested=amount)
        if is_accelerator(slot):
            first = kinds.setdefault(slot.partition(".")[0], slot)
            if first != slot:
                raise refusals.same_kind(first, slot, requested=amount)
        wanted.append((slot, amount))
    return wanted


@lru_cache(1024)
def _in_order(amounts: tuple[tuple[SlotName, Amount], ...]) -> Sequence[tuple[SlotName, int]] | None:
    """`_wanted` for amounts that only an unknown slot could make invalid; None for others."""
    wanted = [(slot, amount) for slot, amount in sorted(amounts, key=_order) if not isinstance(amount, Unlimited)]
    kinds = [slot.partition(".")[0] for slot, amount in wanted if amount and is_accelerator(slot)]
    if len(wanted) < len(amounts) or len(set(kinds)) < len(kinds):
        return None
    return [(slot, amount) for slot, amount in wanted if amount]


def _order(item: tuple[SlotName, Amount]) -> tuple[bool, SlotName]:
    return not is_accelerator(item[0]), item[0]
