"""Population: how many sessions wait and run, by pool, project and owner, kept as sessions come and go."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from aliquot.service.demand import tasks_waiting
from aliquot_schema.ids import PoolId, ProjectId, UserId
from aliquot_schema.sessions import Session
from aliquot_schema.states import ACTIVE

K = TypeVar("K")


class Counted(NamedTuple):
    """How many there are."""

    waiting: int
    """Tasks; a job array counts those of it that wait."""
    running: int
    """Sessions and tasks that were given devices; the array itself is none."""


NOBODY: Final = Counted(0, 0)
Place = tuple[PoolId, ProjectId, UserId]


class Population:
    """Counts of what has not ended."""

    def __init__(self) -> None:
        self._at: dict[Place, Counted] = {}
        self.waiting = 0
        """Tasks, at all places."""

    def put(self, session: Session, *, before: Session | None) -> None:
        """A session is new, or another version of `before`."""
        old, new = NOBODY if before is None else _counted(before), _counted(session)
        if old == new:
            return
        self.waiting += new.waiting - old.waiting
        place = session.pool, session.project, session.owner
        there = _changed(self._at.pop(place, NOBODY), more=new, less=old)
        if there != NOBODY:
            self._at[place] = there

    def of_pools(self) -> Mapping[PoolId, Counted]:
        """By pool; one without any may be missing."""
        return _sums((pool, counted) for (pool, _, _), counted in self._at.items())

    def of_projects(self) -> Mapping[ProjectId, Counted]:
        """By project; one without any may be missing."""
        return _sums((project, counted) for (_, project, _), counted in self._at.items())

    def owners(self) -> set[tuple[ProjectId, UserId]]:
        """Whose they are, with the project."""
        return {(project, owner) for _, project, owner in self._at}


def _counted(session: Session) -> Counted:
    if session.is_pending:
        return Counted(tasks_waiting(session), 0)
    return Counted(0, int(session.tasks is None and session.state in ACTIVE))


def _changed(known: Counted, *, more: Counted, less: Counted = NOBODY) -> Counted:
    return Counted(known.waiting + more.waiting - less.waiting, known.running + more.running - less.running)


def _sums(counts: Iterable[tuple[K, Counted]]) -> Mapping[K, Counted]:
    found: defaultdict[K, Counted] = defaultdict(lambda: NOBODY)
    for key, counted in counts:
        found[key] = _changed(found[key], more=counted)
    return found
