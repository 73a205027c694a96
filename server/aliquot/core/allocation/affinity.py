"""Affinity: among equally good devices, prefer linked ones and those of one NUMA node."""

from collections import Counter
from collections.abc import Mapping, Sequence

from aliquot.core.allocation.options import NumaPolicy

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
