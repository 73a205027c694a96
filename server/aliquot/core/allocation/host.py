"""Host allocation: CPU cores and memory near the granted accelerators."""

from collections.abc import Iterator, Mapping, Sequence
from math import lcm

from aliquot.core.allocation import accelerators, refusals
from aliquot.core.allocation.layout import Group, SlotLayout, interleaved
from aliquot.core.allocation.occupancy import Occupancy
from aliquot.core.allocation.options import NumaPolicy
from aliquot_schema.ids import DeviceId, SlotName


def allocate_host(
    slot: SlotName,
    *,
    amount: int,
    layout: SlotLayout,
    used: Occupancy,
    near: frozenset[Group],
    numa: NumaPolicy,
) -> dict[DeviceId, int]:
    """Take from one device after another until the amount is reached.

    Args:
        near: NUMA nodes of the kernel's devices so far; devices of other nodes come last.
    Returns:
        Whole cores, or bytes from as few memory pools as `near` allows; lowest names first.
    Raises:
        NotMultipleOfQuantum, InsufficientResource.
    """
    fast = accelerators.fast_host(layout, amount=amount, used=used, near=near, numa=numa)
    if fast is not None:
        return fast
    fitting = layout.on_step(amount)
    if layout.ids and not fitting:
        raise refusals.off_quantum(slot, requested=amount, quanta=layout.quanta)
    step = layout.quantum or lcm(*[layout.quanta[index] for index in fitting])
    room = layout.free(used)
    if step > 1 or len(fitting) < len(room):
        wanted = frozenset(fitting)
        room = [free // step * step if index in wanted else 0 for index, free in enumerate(room)]
    given: dict[int, int] = {}
    rest = amount
    for index in _order(room, amount=amount, layout=layout, near=near, numa=numa):
        given[index] = min(rest, room[index])
        rest -= given[index]
        if not rest:
            return {layout.ids[index]: given[index] for index in sorted(given)}
    raise refusals.insufficient(slot, requested=amount, available=sum(room))


def _order(
    room: Sequence[int],
    *,
    amount: int,
    layout: SlotLayout,
    near: frozenset[Group],
    numa: NumaPolicy,
) -> Iterator[int]:
    """The order in which devices are used: near ones first, and in each part those that can hold the whole amount."""
    if numa is NumaPolicy.INTERLEAVE:
        yield from interleaved([index for index, free in enumerate(room) if free], nodes=layout.nodes)
    elif not near:
        yield from _node_by_node(room, amount=amount, by_node=layout.by_node)
    else:
        close = sorted(index for node in near for index in layout.by_node.get(node, ()) if room[index])
        local = interleaved(close, nodes=layout.nodes) if len(near) > 1 else close
        yield from _whole_first(local, room=room, amount=amount)
        remote = [index for index, free in enumerate(room) if free and layout.nodes[index] not in near]
        yield from _whole_first(remote, room=room, amount=amount)


def _whole_first(indices: Sequence[int], *, room: Sequence[int], amount: int) -> Sequence[int]:
    whole = [index for index in indices if room[index] >= amount]
    return [*whole, *(index for index in indices if room[index] < amount)] if whole else indices


def _node_by_node(room: Sequence[int], *, amount: int, by_node: Mapping[Group, Sequence[int]]) -> Iterator[int]:
    """The smallest node that has enough first, then the others from the largest."""
    sums = {node: sum([room[index] for index in indices]) for node, indices in by_node.items()}
    best = min((total for total in sums.values() if total >= amount), default=None)
    for node in sorted(sums, key=lambda node: (sums[node] != best, -sums[node], _rank(node))):
        yield from _whole_first([index for index in by_node[node] if room[index]], room=room, amount=amount)


def _rank(node: Group) -> int:
    return -1 if node is None else node
