"""Placement strategies: where a session goes. One strategy a file; `PLACEMENTS` names them."""

from collections.abc import Callable, Mapping
from typing import Final

from aliquot.core.placement import first_fit
from aliquot.core.plan import KernelPlacement
from aliquot.core.room import Room
from aliquot.core.snapshot import PendingRow

Place = Callable[[PendingRow, Room], tuple[KernelPlacement, ...]]
"""Places as many kernels of a session as fit together, in order of rank; takes nothing from the room."""

PLACEMENTS: Final[Mapping[str, Place]] = {"first_fit": first_fit.place}
