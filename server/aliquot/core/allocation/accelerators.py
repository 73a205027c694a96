"""Accelerator allocation: devices for an amount of one slot, `<kind>.shares` by fraction, other slots in whole units.

Most requests take a fast path, which gives the same result as the general path or None. A preferred device is one that
the scheduler has chosen for a share.
"""

from collections.abc import Sequence
from itertools import filterfalse, islice
from math import lcm
from typing import Final

from msgspec import Struct

from aliquot.core.allocation import refusals
from aliquot.core.allocation.layout import Group, SlotLayout, pick
from aliquot.core.allocation.occupancy import Occupancy
from aliquot.core.allocation.options import AllocationOptions, NumaPolicy, ShareStrategy, is_of_model
from aliquot.core.allocation.share_splitting import (
    Choose,
    Split,
    equal_parts,
    split_by_room,
    split_equally,
    split_evenly,
    tightest,
    unevenness,
    with_most_free,
)
from aliquot_schema.errors import AllocationRefused
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.resources.slots import AMOUNT_MAX, MILLI, scale_of

NEVER: Final = AMOUNT_MAX
"""Minimum part of a device with too little memory for any part."""
Given = dict[DeviceId, int]


def allocate_accelerator(
    slot: SlotName,
    *,
    amount: int,
    layout: SlotLayout,
    used: Occupancy,
    options: AllocationOptions,
    preferred: DeviceId | None = None,
) -> dict[DeviceId, int]:
    """Choose devices and amounts; the amounts add up to `amount`. With a preferred device, no other is used.

    - A single device that can hold the amount takes all of it: with `evenly` the tightest, the last among equals; with
      `fill` the one with the most free, the first among equals.
    - Whole devices are idle ones, taken from the smallest island of linked devices, or NUMA node, that has enough, so
      that large groups stay together; ties are broken as above.
    - Splits follow `share_splitting`. A grant never mixes slices and whole devices: slices are tried first if a minimum
      memory is given, else last.

    Raises:
        NotMultipleOfQuantum, InsufficientResource, FractionalResourceFragmented.
    """
    is_share = _is_fractional(slot)
    fast = fast_accelerators(layout, amount=amount, used=used, options=options, is_share=is_share, preferred=preferred)
    if fast is not None:
        return fast
    fitting = layout.on_step(amount)
    if layout.ids and not fitting:
        raise refusals.off_quantum(slot, requested=amount, quanta=layout.quanta)
    if options.models and fitting:
        fitting = [index for index in fitting if is_of_model(layout.models[index], options.models)]
        if not fitting:
            raise refusals.other_models(slot, requested=amount, models=options.models)
    free = layout.free(used)
    if preferred is not None:
        free = [room if device_id == preferred else 0 for device_id, room in zip(layout.ids, free, strict=True)]
    refusal: AllocationRefused | None = None
    groups = (layout.slices, layout.wholes) if options.gpu_memory_bytes else (layout.wholes, layout.slices)
    for group in groups:
        members = group if len(fitting) == len(layout.ids) else [index for index in group if index in fitting]
        if members:
            offer = _offer(slot, layout=layout, members=members, free=free, options=options)
            outcome = _split(slot, amount=amount, offer=offer, options=options)
            if isinstance(outcome, dict):
                return {offer.ids[index]: outcome[index] * offer.step for index in sorted(outcome)}
            refusal = outcome
    raise refusal or refusals.insufficient(slot, requested=amount, available=0)


class _FreeAmounts(Struct, frozen=True):
    """Free amounts of a slot on some devices. Columns of equal length; amounts in steps of `step` base units."""

    ids: Sequence[DeviceId]
    room: Sequence[int]
    least: Sequence[int] | None
    """The smallest part of each device that has the requested memory; None = no memory was requested."""
    largest: int
    """Capacity of the largest device that has the requested memory; 0 = none."""
    step: int
    nodes: Sequence[Group]
    islands: Sequence[Group]
    numa: NumaPolicy

    def choose(self, preferred: Sequence[int], count: int) -> Sequence[int]:
        return pick(preferred, count=count, nodes=self.nodes, islands=self.islands, policy=self.numa)


def _offer(
    slot: SlotName,
    *,
    layout: SlotLayout,
    members: Sequence[int],
    free: Sequence[int],
    options: AllocationOptions,
) -> _FreeAmounts:
    step = lcm(*[layout.quanta[index] for index in members])
    capacity = [layout.budgets[index] // layout.costs[index] // step for index in members]
    least = None
    if options.gpu_memory_bytes:
        memory = [layout.memory_bytes[index] for index in members]
        least = _least(capacity, memory=memory, asked=options.gpu_memory_bytes, fractional=_is_fractional(slot))
        capacity = [held if part < NEVER else 0 for held, part in zip(capacity, least, strict=True)]
    return _FreeAmounts(
        ids=[layout.ids[index] for index in members],
        room=[free[index] // step for index in members],
        least=least,
        largest=max(capacity),
        step=step,
        nodes=[layout.nodes[index] for index in members],
        islands=[layout.islands[index] for index in members],
        numa=options.numa,
    )


def _least(capacity: Sequence[int], *, memory: Sequence[int], asked: int, fractional: bool) -> list[int]:
    """Steps of each device that have the requested memory: a part of a device has that part of its memory."""
    return [
        NEVER if total < asked else -(-asked * steps // total) if fractional else 0
        for steps, total in zip(capacity, memory, strict=True)
    ]


def _is_fractional(slot: SlotName) -> bool:
    return scale_of(slot) == MILLI


def _split(
    slot: SlotName, *, amount: int, offer: _FreeAmounts, options: AllocationOptions
) -> Split | AllocationRefused:
    wanted = amount // offer.step
    least = offer.least or [0] * len(offer.room)
    among = [index for index in range(len(least)) if least[index] <= wanted]
    if not among:
        return refusals.too_little_memory(slot, requested=amount, memory_bytes=options.gpu_memory_bytes or 0)
    rank = tightest if options.strategy is ShareStrategy.EVENLY else with_most_free
    ranked = rank(offer.room, amount=wanted, among=among)
    if ranked:
        return {ranked[0] if _is_fractional(slot) else offer.choose(ranked, 1)[0]: wanted}
    free = sum(offer.room[index] for index in among)
    if free < wanted:
        return refusals.insufficient(slot, requested=amount, available=free * offer.step)
    equal = _is_fractional(slot) and not options.allow_fragmentation
    if equal and wanted <= offer.largest:
        largest = max(offer.room[index] for index in among) * offer.step
        return refusals.fragmented(slot, requested=amount, largest=largest, equal=False)
    splits = _splits(wanted, offer=offer, least=least, strategy=options.strategy, equal=equal)
    if splits:
        return min(splits, key=unevenness) if options.strategy is ShareStrategy.EVENLY else splits[0]
    largest = max(offer.room) * offer.step
    if offer.least is None:
        return refusals.fragmented(slot, requested=amount, largest=largest, equal=True)
    return refusals.unsplittable(slot, requested=amount, largest=largest)


def _splits(
    wanted: int, *, offer: _FreeAmounts, least: Sequence[int], strategy: ShareStrategy, equal: bool
) -> list[Split]:
    """Splits, one per minimum part that some device needs to have the requested memory.

    All parts of a split have at least that size. On an agent with cards of different memory, this refuses splits that
    give a larger card a smaller part than a smaller card.
    """
    splits = []
    for smallest in sorted({part for part in least if part < NEVER}):
        room = [steps if part <= smallest <= steps else 0 for steps, part in zip(offer.room, least, strict=True)]
        split = _split_room(room, amount=wanted, least=smallest, strategy=strategy, equal=equal, choose=offer.choose)
        if split is not None:
            splits.append(split)
    return splits


def _split_room(
    room: Sequence[int],
    *,
    amount: int,
    least: int,
    strategy: ShareStrategy,
    equal: bool,
    choose: Choose,
) -> Split | None:
    if strategy is ShareStrategy.FILL:
        if equal and equal_parts(room, amount=amount, least=least) is None:
            return None
        return split_by_room(room, amount=amount, least=least, choose=choose)
    if equal:
        return split_equally(room, amount=amount, least=least, choose=choose)
    return split_evenly(room, amount=amount, least=least, choose=choose)


def fast_accelerators(
    layout: SlotLayout,
    *,
    amount: int,
    used: Occupancy,
    options: AllocationOptions,
    is_share: bool,
    preferred: DeviceId | None,
) -> Given | None:
    """Fast path: whole devices of capacity 1, or a share on one device, if all are alike; None = not applicable."""
    is_bound = options.gpu_memory_bytes or options.models or options.strategy is not ShareStrategy.EVENLY
    if is_bound or not layout.is_alike or amount % layout.quantum:
        return None
    if is_share:
        return _share(layout, amount=amount, used=used, preferred=preferred)
    if preferred is not None or not layout.is_units:
        return None
    ids = layout.ids
    idle = [index for index in range(len(ids) - 1, -1, -1) if not used.get(ids[index])]
    if len(idle) < amount:
        return None
    chosen = pick(idle, count=amount, nodes=layout.nodes, islands=layout.islands, policy=options.numa)
    return dict.fromkeys([ids[index] for index in sorted(chosen)], 1)


def fast_host(
    layout: SlotLayout, *, amount: int, used: Occupancy, near: frozenset[Group], numa: NumaPolicy
) -> Given | None:
    """Fast path for host slots: all of it from the only device, or whole units near `near`; None = not applicable."""
    if not layout.is_alike or amount % layout.quantum:
        return None
    if len(layout.ids) == 1:
        only, budget = layout.ids[0], layout.budgets[0]
        return {only: amount} if budget - used.get(only, 0) >= amount * layout.cost else None
    if not layout.is_units or len(near) > 1 or numa is not NumaPolicy.PREFER:
        return None
    if near:
        (node,) = near
        idle = _near(layout, amount=amount, used=used, node=node)
    else:
        idle = _of_one_node(layout, amount=amount, used=used)
    return None if idle is None else dict.fromkeys(idle, 1)


def _share(layout: SlotLayout, *, amount: int, used: Occupancy, preferred: DeviceId | None) -> Given | None:
    """On the preferred device; without one on the tightest, the last among equals."""
    if preferred is not None:
        place = layout.places.get(preferred)
        has_room = place is not None and layout.budgets[place] - used.get(preferred, 0) >= amount * layout.cost
        return {preferred: amount} if has_room else None
    step = layout.quantum
    enough = [(free // step, -index) for index, free in enumerate(layout.free(used)) if free >= amount]
    return {layout.ids[-min(enough)[1]]: amount} if enough else None


def _near(layout: SlotLayout, *, amount: int, used: Occupancy, node: Group) -> Sequence[DeviceId] | None:
    """The first idle units of one node, then of the others."""
    local = list(islice(filterfalse(used.get, layout.ids_by_node.get(node, ())), amount))
    if len(local) == amount:
        return local
    known = frozenset(local)
    remote = (device_id for device_id in filterfalse(used.get, layout.ids) if device_id not in known)
    chosen = [*local, *islice(remote, amount - len(local))]
    return sorted(chosen, key=layout.places.__getitem__) if len(chosen) == amount else None


def _of_one_node(layout: SlotLayout, *, amount: int, used: Occupancy) -> Sequence[DeviceId] | None:
    """The first idle units of the node that has enough with the fewest idle ones."""
    best: Sequence[DeviceId] | None = None
    for _, ids in sorted(layout.ids_by_node.items(), key=_rank):
        idle = list(filterfalse(used.get, ids))
        if len(idle) >= amount and (best is None or len(idle) < len(best)):
            best = idle
    return None if best is None else best[:amount]


def _rank(item: tuple[Group, Sequence[DeviceId]]) -> int:
    node = item[0]
    return -1 if node is None else node
