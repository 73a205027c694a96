"""Giving way: who was stopped so that another one can start lets it start first, whatever the order says of the two.

Otherwise a session that came long ago, or whose user has used little, would take the room again that it has just made.
"""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from aliquot.core.queue import IntArray, Queue
from aliquot_schema.ids import SessionId


def giving_way(line: IntArray, yields: Mapping[int, SessionId], *, queue: Queue) -> IntArray:
    """The line with those that made room right behind the ones that they made it for; the others keep their places.

    Args:
        line: positions in the queue, the next one first.
        yields: for whom rows made room, by their positions.
    """
    if not yields:
        return line
    positions = line.tolist()
    wanted = frozenset(yields.values())
    in_line = {name: position for position in positions if (name := queue[position].session_id) in wanted}
    behind: dict[int, list[int]] = defaultdict(list)
    placed: dict[int, None] = {}
    for position in positions:
        first = in_line.get(yields[position]) if position in yields else None
        if first is not None and first not in placed:
            behind[first].append(position)
            continue
        following = [position]
        while following:
            placed[following[-1]] = None
            following.extend(reversed(behind.pop(following.pop(), [])))
    rest = [position for position in positions if position not in placed]  # they made room for each other
    return np.array([*placed, *rest], dtype=np.int64)
