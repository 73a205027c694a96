"""Plain cases of an allocation, which most of them are: the general way's own answer in a few steps.

A device that is liked is one that the scheduler has chosen for a share. None = leave it to the general way.
"""

from collections.abc import Sequence
from itertools import filterfalse, islice

from aliquot.core.allocation.affinity import Group, pick
from aliquot.core.allocation.layout import SlotLayout
from aliquot.core.allocation.occupancy import Occupancy
from aliquot.core.allocation.options import AllocationOptions, NumaPolicy, Strategy
from aliquot_schema.ids import DeviceId

Given = dict[DeviceId, int]


def accelerators(
    layout: SlotLayout,
    *,
    amount: int,
    used: Occupancy,
    options: AllocationOptions,
    is_share: bool,
    liked: DeviceId | None,
) -> Given | None:
    """Whole devices of capacity 1, or a share that one device holds, of an agent whose devices are all alike."""
    is_bound = options.gpu_memory_bytes or options.models or options.strategy is not Strategy.EVENLY
    if is_bound or not layout.is_alike or amount % layout.quantum:
        return None
    if is_share:
        return _share(layout, amount=amount, used=used, liked=liked)
    if liked is not None or not layout.is_units:
        return None
    ids = layout.ids
    idle = [index for index in range(len(ids) - 1, -1, -1) if not used.get(ids[index])]
    if len(idle) < amount:
        return None
    chosen = pick(idle, count=amount, nodes=layout.nodes, islands=layout.islands, policy=options.numa)
    return dict.fromkeys([ids[index] for index in sorted(chosen)], 1)


def host(layout: SlotLayout, *, amount: int, used: Occupancy, near: frozenset[Group], numa: NumaPolicy) -> Given | None:
    """All of it from the only device there is, or whole units, of one NUMA node as far as there are."""
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


def _share(layout: SlotLayout, *, amount: int, used: Occupancy, liked: DeviceId | None) -> Given | None:
    """On the device that is liked; without one, on the tightest, the last among equals."""
    if liked is not None:
        place = layout.places.get(liked)
        has_room = place is not None and layout.budgets[place] - used.get(liked, 0) >= amount * layout.cost
        return {liked: amount} if has_room else None
    step = layout.quantum
    enough = [(free // step, -index) for index, free in enumerate(layout.free(used)) if free >= amount]
    return {layout.ids[-min(enough)[1]]: amount} if enough else None


def _near(layout: SlotLayout, *, amount: int, used: Occupancy, node: Group) -> Sequence[DeviceId] | None:
    """Idle units of one node, the first ones; then those of the others."""
    local = list(islice(filterfalse(used.get, layout.ids_by_node.get(node, ())), amount))
    if len(local) == amount:
        return local
    known = frozenset(local)
    remote = (device_id for device_id in filterfalse(used.get, layout.ids) if device_id not in known)
    chosen = [*local, *islice(remote, amount - len(local))]
    return sorted(chosen, key=layout.places.__getitem__) if len(chosen) == amount else None


def _of_one_node(layout: SlotLayout, *, amount: int, used: Occupancy) -> Sequence[DeviceId] | None:
    """The first ones of the node with the fewest idle units that has enough."""
    best: Sequence[DeviceId] | None = None
    for _, ids in sorted(layout.ids_by_node.items(), key=_rank):
        idle = list(filterfalse(used.get, ids))
        if len(idle) >= amount and (best is None or len(idle) < len(best)):
            best = idle
    return None if best is None else best[:amount]


def _rank(item: tuple[Group, Sequence[DeviceId]]) -> int:
    node = item[0]
    return -1 if node is None else node
