"""Share splitting: divides an amount over devices; integer arithmetic in steps of the slot's quantum.

`room[i]` is the number of free steps of device i, `least` the minimum steps of a part. A split is `{i: steps}`, all
> 0, and adds up to the amount exactly; None = impossible. `choose(ranked, count)` picks among equally good devices,
given with the best first.
"""

from collections.abc import Callable, Mapping, Sequence

Split = dict[int, int]
Choose = Callable[[Sequence[int], int], Sequence[int]]


def unevenness(split: Mapping[int, int]) -> tuple[int, int]:
    """(max - min, devices), which `split_evenly` minimizes in this order. A difference of one step counts as 0."""
    spread = max(split.values()) - min(split.values())
    return (spread if spread > 1 else 0), len(split)


def tightest(room: Sequence[int], *, amount: int, among: Sequence[int]) -> list[int]:
    """The devices with the least room that can hold the whole amount, the last one first."""
    enough = [index for index in among if room[index] >= amount]
    if not enough:
        return []
    least_room = min(room[index] for index in enough)
    return [index for index in reversed(enough) if room[index] == least_room]


def with_most_free(room: Sequence[int], *, amount: int, among: Sequence[int]) -> list[int]:
    """The devices with the most room, if that is enough for the amount, the first one first."""
    most = max((room[index] for index in among), default=0)
    return [index for index in among if room[index] == most] if most >= amount else []


def equal_parts(room: Sequence[int], *, amount: int, least: int) -> int | None:
    """The smallest number of devices over which parts differ by at most one step; None if there is none."""
    widest = sorted(room, reverse=True)
    for count in range(1, len(widest) + 1):
        part, more = divmod(amount, count)
        if part < max(least, 1):
            return None
        if widest[count - 1] >= part and (more == 0 or widest[more - 1] > part):
            return count
    return None


def split_equally(room: Sequence[int], *, amount: int, least: int, choose: Choose) -> Split | None:
    """Equal parts, up to one step, over the fewest devices; tight devices are preferred."""
    count = equal_parts(room, amount=amount, least=least)
    if count is None:
        return None
    part, more = divmod(amount, count)
    ranked = sorted((index for index in range(len(room)) if room[index] >= part), key=lambda i: (room[i], -i))
    larger = [index for index in ranked if room[index] > part]
    if more == 0:
        return dict.fromkeys(choose(ranked, count), part)
    if len(larger) >= count:
        chosen = choose(larger, count)
    else:
        chosen = [*larger, *choose([index for index in ranked if room[index] == part], count - len(larger))]
    return {index: part + (rank < more) for rank, index in enumerate(chosen)}


def split_evenly(room: Sequence[int], *, amount: int, least: int, choose: Choose) -> Split | None:
    """The split with the smallest `unevenness`.

    For a given number of devices, those with the most room are optimal: the smallest part is the room of the last of
    them (or the mean, if smaller), the largest part the lowest level at which all of them together hold the amount.
    """
    equal = split_equally(room, amount=amount, least=least, choose=choose)
    if equal is not None:
        return equal
    widest = sorted(range(len(room)), key=lambda index: (-room[index], -index))
    best: tuple[int, int, int] | None = None
    held = 0
    for count, index in enumerate(widest, start=1):
        held += room[index]
        smallest = min(room[index], amount // count)
        if smallest < max(least, 1):
            break
        if held >= amount:
            level = _level([room[member] for member in widest[:count]], amount=amount)
            best = min(best or (level - smallest, count, level), (level - smallest, count, level))
    if best is None:
        return None
    _, count, level = best
    return _cut(room, widest[:count], amount=amount, level=level)


def split_by_room(room: Sequence[int], *, amount: int, least: int, choose: Choose) -> Split | None:
    """Fill the devices with the most room one after another; every part is at least `least`."""
    widest = sorted(range(len(room)), key=lambda index: (-room[index], index))
    held = 0
    for count, index in enumerate(widest, start=1):
        held += room[index]
        if room[index] < max(least, 1) or count * least > amount:
            return None
        if held >= amount:
            return _pour(room, _settle_ties(room, widest, count=count, choose=choose), amount=amount, least=least)
    return None


def _level(room: Sequence[int], *, amount: int) -> int:
    """The lowest level with `sum(min(room, level)) >= amount`; `room` is sorted descending and sufficient."""
    rest = amount
    for above in range(len(room), 0, -1):
        level = -(-rest // above)
        if level <= room[above - 1]:
            return level
        rest -= room[above - 1]
    raise AssertionError("the devices do not hold the amount")


def _cut(room: Sequence[int], chosen: Sequence[int], *, amount: int, level: int) -> Split:
    split = {index: min(room[index], level) for index in chosen}
    excess = sum(split.values()) - amount
    for index in reversed(chosen):
        if excess and split[index] == level:
            split[index] -= 1
            excess -= 1
    return split


def _settle_ties(room: Sequence[int], widest: Sequence[int], *, count: int, choose: Choose) -> list[int]:
    """The first `count` devices; `choose` picks among those with the same room as the last of them."""
    edge = room[widest[count - 1]]
    forced = [index for index in widest[:count] if room[index] > edge]
    tied = [index for index in widest if room[index] == edge]
    return [*forced, *choose(tied, count - len(forced))]


def _pour(room: Sequence[int], chosen: Sequence[int], *, amount: int, least: int) -> Split:
    split = dict.fromkeys(chosen, least)
    rest = amount - least * len(chosen)
    for index in chosen:
        more = min(rest, room[index] - least)
        split[index] += more
        rest -= more
    return {index: part for index, part in split.items() if part}
