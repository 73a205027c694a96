"""States on a line, and every allowed move between them as an arc: onward above, back below."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import Final, TypeVar

from aliquot_docs.drawing.svg import BLUE, ORANGE, arc, box, label, picture

State = TypeVar("State", bound=StrEnum)
STEP: Final = 124
BOX: Final = (104, 30)
RISE: Final = 26
"""Of an arc, for each state that it leads over."""


def state_arcs(
    order: Sequence[State], moves: Mapping[State, frozenset[State]], *, title: str, width_max: int = 1000
) -> str:
    """Draw a table of moves.

    Args:
        order: the states from left to right; all that the table has, or those to be shown.
    """
    step = min(STEP, (width_max - BOX[0] - 20) // max(len(order) - 1, 1))
    shown = [(start, end) for start in order for end in order if end in moves[start]]
    up = max((order.index(b) - order.index(a) for a, b in shown), default=1)
    down = max((order.index(a) - order.index(b) for a, b in shown), default=0)
    top = 16 + max(up, 1) * RISE
    height = top + BOX[1] + 16 + max(down, 0) * RISE
    parts = [_move(order, *move, step=step, top=top) for move in shown]
    parts += chain.from_iterable(_state(name, index, step=step, top=top) for index, name in enumerate(order))
    return picture("".join(parts), width=step * (len(order) - 1) + BOX[0] + 20, height=height, title=title)


def _state(name: StrEnum, index: int, *, step: int, top: int) -> tuple[str, str]:
    x = 10 + index * step
    return box(x, top, *BOX), label(name.value, x + BOX[0] / 2, top + 20)


def _move(order: Sequence[StrEnum], start: StrEnum, end: StrEnum, *, step: int, top: int) -> str:
    first, last = order.index(start), order.index(end)
    middle = 10 + BOX[0] / 2
    over = abs(last - first)
    # Moves leave right of the middle and arrive left of it, so that neither hides the other.
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
