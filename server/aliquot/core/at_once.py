"""At once: who holds devices for work that is run outside does not wait. It comes last, and is turned away when
nothing is left for it."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import numpy as np

from aliquot.core.plan import Placement
from aliquot.core.queue import IntArray
from aliquot_schema.ids import SessionId
from aliquot_schema.sessions import Failure

V = TypeVar("V")

TURNED_AWAY: Final = Failure(code="not_placed", message="nothing was left for it at once, and it does not wait")


def last(line: IntArray, at_once: Mapping[SessionId, int]) -> IntArray:
    """The line with these positions at its end, in their order."""
    if not at_once:
        return line
    is_hurried = np.isin(line, np.fromiter(at_once.values(), dtype=np.int64))
    return np.concatenate([line[~is_hurried], line[is_hurried]])


def turned_away(at_once: Iterable[SessionId], placements: Iterable[Placement]) -> dict[SessionId, Failure]:
    """Those who got nothing."""
    placed = {placement.session_id for placement in placements}
    return {name: TURNED_AWAY for name in sorted(at_once) if name not in placed}


def without(found: dict[SessionId, V], at_once: Mapping[SessionId, int]) -> dict[SessionId, V]:
    """What is found of the others."""
    return {name: value for name, value in found.items() if name not in at_once} if at_once else found
