"""Which of equally good devices go together: linked ones, and those of one NUMA node."""

from collections import Counter
from collections.abc import Mapping, Sequence

from aliquot.core.allocation.options import NumaPolicy

Group = int | None
"""A NUMA node or an island of linked devices; None = not known, a group of its own."""


def pick(
    liked: Sequence[int],
    *,
    count: int,
    nodes: Sequence[Group],
    islands: Sequence[Group],
    policy: NumaPolicy,
) -> list[int]:
    """Choose `count` of the devices.

    Args:
        liked: indices into `nodes` and `islands`, the most liked first; at least `count`.
        nodes: the NUMA node of each device.
        islands: the set of directly linked devices that each device is in.
    Returns:
        `prefer`: from the smallest island that has enough, in it (or without one) the smallest NUMA node that has
        enough; where no node has enough, the fullest nodes first, so that few are used. `interleave`: the nodes in
        turn.
    """
    if policy is NumaPolicy.INTERLEAVE:
        return in_turn(liked, nodes=nodes)[:count]
    narrowed = _smallest_enough(liked, count=count, groups=islands, nodes=nodes)
    narrowed = _smallest_enough(narrowed, count=count, groups=nodes, nodes=nodes)
    sizes = _sizes(narrowed, nodes)
    if len(sizes) == 1:
        return list(narrowed[:count])
    return _by_group(narrowed, groups=nodes, sizes=sizes)[:count]


def in_turn(liked: Sequence[int], *, nodes: Sequence[Group]) -> list[int]:
    """Deal the devices out node by node: the first of each node, the second of each, and so on."""
    seen: Counter[Group] = Counter()
    rounds: list[int] = []
    for index in liked:
        rounds.append(seen[nodes[index]])
        seen[nodes[index]] += 1
    return [index for _, _, index in sorted(zip(rounds, range(len(liked)), liked, strict=True))]


def _smallest_enough(
    liked: Sequence[int],
    *,
    count: int,
    groups: Sequence[Group],
    nodes: Sequence[Group],
) -> Sequence[int]:
    """Only the smallest group with `count` members; all when no group has enough.

    Among equals it is the one in the smallest NUMA node, then the most liked one.
    """
    sizes = _sizes(liked, groups)
    if len(sizes) == 1 or max(sizes.values(), default=0) < count:
        return liked
    crowd = _sizes(liked, nodes)
    best = min(
        (index for index in liked if sizes[groups[index]] >= count),
        key=lambda index: (sizes[groups[index]], crowd[nodes[index]]),
        default=None,
    )
    return liked if best is None else [index for index in liked if groups[index] == groups[best]]


def _sizes(indices: Sequence[int], groups: Sequence[Group]) -> dict[Group, int]:
    """How many of the devices are in each group."""
    sizes: dict[Group, int] = {}
    for index in indices:
        group = groups[index]
        sizes[group] = sizes.get(group, 0) + 1
    return sizes


def _by_group(liked: Sequence[int], *, groups: Sequence[Group], sizes: Mapping[Group, int]) -> list[int]:
    """Keep groups together, the largest first, then the one whose first member is liked more."""
    first: dict[Group, int] = {}
    for rank, index in enumerate(liked):
        first.setdefault(groups[index], rank)
    return sorted(liked, key=lambda index: (-sizes[groups[index]], first[groups[index]]))
