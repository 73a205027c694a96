"""Where the parts of notices work."""

from dataclasses import dataclass

from aliquot.service.journal import Journal
from aliquot.service.ports import Clock, Ids
from aliquot.service.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Of one server."""

    state: State
    journal: Journal
    clock: Clock
    ids: Ids
