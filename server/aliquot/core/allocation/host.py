"""Giving an amount of the host's own slots, CPU cores and memory, near the accelerators that were given."""

from collections import Counter
from collections.abc import Sequence
from math import lcm

from aliquot.core.allocation import refusals
from aliquot.core.allocation.affinity import Group, in_turn
from aliquot.core.allocation.layout import SlotLayout
from aliquot.core.allocation.occupancy import Occupancy
from aliquot.core.allocation.options import NumaPolicy
from aliquot_schema.ids import DeviceId, SlotName


def gather(
    slot: SlotName,
    *,
    amount: int,
    layout: SlotLayout,
    used: Occupancy,
    near: frozenset[Group],
    numa: NumaPolicy,
) -> dict[DeviceId, int]:
    """Take from one device after the other until the amount is reached.

    Args:
        near: NUMA nodes of what the kernel was given before; devices of other nodes come last.
    Returns:
        One core of the host each, or bytes of as few memory pools as `near` allows; lowest names first.
    Raises:
        NotMultipleOfQuantum, InsufficientResource.
    """
    fitting = layout.on_step(amount)
    if layout.ids and not fitting:
        raise refusals.off_quantum(slot, requested=amount, quanta=layout.quanta)
    step = layout.quantum or lcm(*[layout.quanta[index] for index in fitting])
    free = layout.free(used)
    room = [0] * len(free)
    for index in fitting:
        room[index] = free[index] // step * step
    given: dict[int, int] = {}
    rest = amount
    for index in _order(room, amount=amount, nodes=layout.nodes, near=near, numa=numa):
        given[index] = min(rest, room[index])
        rest -= given[index]
        if not rest:
            return {layout.ids[index]: given[index] for index in sorted(given)}
    raise refusals.insufficient(slot, requested=amount, available=sum(room))


def _order(
    room: Sequence[int],
    *,
    amount: int,
    nodes: Sequence[Group],
    near: frozenset[Group],
    numa: NumaPolicy,
) -> list[int]:
    """The order in which devices are used: near ones, and in each part those that can hold all of it, first."""
    open_to_use = [index for index, free in enumerate(room) if free]
    if numa is NumaPolicy.INTERLEAVE:
        return in_turn(open_to_use, nodes=nodes)
    if not near:
        return _node_by_node(open_to_use, room=room, amount=amount, nodes=nodes)
    local = [index for index in open_to_use if nodes[index] in near]
    remote = [index for index in open_to_use if nodes[index] not in near]
    if len(near) > 1:
        local = in_turn(local, nodes=nodes)
    return [*_whole_first(local, room=room, amount=amount), *_whole_first(remote, room=room, amount=amount)]


def _whole_first(indices: Sequence[int], *, room: Sequence[int], amount: int) -> list[int]:
    whole = [index for index in indices if room[index] >= amount]
    return [*whole, *(index for index in indices if room[index] < amount)] if whole else list(indices)


def _node_by_node(open_to_use: Sequence[int], *, room: Sequence[int], amount: int, nodes: Sequence[Group]) -> list[int]:
    """The smallest node that has enough first; then the others, the largest first."""
    sums: Counter[Group] = Counter()
    for index in open_to_use:
        sums[nodes[index]] += room[index]
    best = min((total for total in sums.values() if total >= amount), default=None)
    ranked = sorted(sums, key=lambda node: (sums[node] != best, -sums[node], _rank(node)))
    order: list[int] = []
    for node in ranked:
        order += _whole_first([index for index in open_to_use if nodes[index] == node], room=room, amount=amount)
    return order


def _rank(node: Group) -> int:
    return -1 if node is None else node
