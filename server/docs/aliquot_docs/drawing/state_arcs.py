"""State pictures: states in a line, and allowed transitions as arcs, forward above and backward below."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import Final, TypeVar

from aliquot_docs.drawing.svg import BLUE, ORANGE, arc, box, label, picture

State = TypeVar("State", bound=StrEnum)
STEP: Final = 124
BOX: Final = (104, 30)
RISE: Final = 26
"""Height of an arc per state it passes."""


def state_arcs(
    order: Sequence[State], moves: Mapping[State, frozenset[State]], *, title: str, width_max: int = 1000
) -> str:
    """Draw a table of transitions.

    Args:
        order: the states to draw, from left to right.
    """
    step = min(STEP, (width_max - BOX[0] - 20) // max(len(order) - 1, 1))
    drawn = [(start, end) for start in order for end in order if end in moves[start]]
    up = max((order.index(b) - order.index(a) for a, b in drawn), default=1)
    down = max((order.index(a) - order.index(b) for a, b in drawn), default=0)
    top = 16 + max(up, 1) * RISE
    height = top + BOX[1] + 16 + max(down, 0) * RISE
    parts = [_move(order, *move, step=step, top=top) for move in drawn]
    parts += chain.from_iterable(_state(name, index, step=step, top=top) for index, name in enumerate(order))
    return picture("".join(parts), width=step * (len(order) - 1) + BOX[0] + 20, height=height, title=title)


def _state(name: StrEnum, index: int, *, step: int, top: int) -> tuple[str, str]:
    x = 10 + index * step
    return box(x, top, *BOX), label(name.value, x + BOX[0] / 2, top + 20)


def _move(order: Sequence[StrEnum], start: StrEnum, end: StrEnum, *, step: int, top: int) -> str:
    first, last = order.index(start), order.index(end)
    middle = 10 + BOX[0] / 2
    over = abs(last - first)
    # Arcs leave right of the middle and arrive left of it, so that they do not overlap.
    if last > first:
        return arc(middle + first * step + 22, middle + last * step - 22, top, height=over * RISE * 1.3, color=BLUE)
    below = top + BOX[1]
    return arc(
        middle + first * step - 12,
        middle + last * step + 12,
        below,
        height=-over * RISE * 1.3,
        color=ORANGE,
        dash="6 4",
    )
