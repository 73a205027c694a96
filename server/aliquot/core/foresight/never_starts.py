"""Never starts: waiting sessions that start in no possible future. Futures need not be run until they have started."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from aliquot.core.foresight.buckets import array_of
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, Snapshot
from aliquot.core.quota import QuotaTracker
from aliquot.core.scheduler.eligibility import broken_dependency
from aliquot.core.scheduler.feasibility import FeasibilityCache, feasible_agents
from aliquot_schema.ids import SessionId
from aliquot_schema.states import ENDED, SessionState


def never_starting(snapshot: Snapshot, policy: Policy, *, until_us: int) -> frozenset[SessionId]:
    """Waiting sessions that start in no future of a snapshot before a time.

    No held session is released, no agent is opened and no quota is raised there.
    """
    return _Search(snapshot, policy, until_us=until_us).found()


class _Search:
    def __init__(self, snapshot: Snapshot, policy: Policy, *, until_us: int) -> None:
        self._rows: Final = {row.session_id: row for row in snapshot.queue}
        ran = [name for row in snapshot.running for name in (row.session_id, row.array_id) if name is not None]
        self._lives: Final = {*ran, *self._rows, *_arrays_of(self._rows)}
        """What runs or waits: an array also by a task of its own."""
        self._dependencies = snapshot.dependencies
        self._could_run = feasible_agents(snapshot, policy, cache=FeasibilityCache())
        self._until_us = until_us
        quotas = {
            name: replace(quota, gpu_hours_per_month=None, budget=None) for name, quota in snapshot.quotas.items()
        }
        nothing_held = replace(snapshot, running=(), quotas=quotas, bookings=())
        self._quotas: Final = QuotaTracker(nothing_held, policy=policy, now_us=until_us)

    def found(self) -> frozenset[SessionId]:
        """All of them."""
        never = {name for name, row in self._rows.items() if self._is_held_back(row)}
        depending = {name: row for name, row in self._rows.items() if row.depends_on and name not in never}
        while more := self._waiting_for(never, depending):
            never |= more
            depending = {name: row for name, row in depending.items() if name not in more}
        return frozenset(never)

    def _is_held_back(self, row: PendingRow) -> bool:
        if broken_dependency(row.depends_on, self._dependencies) is not None:
            return False  # the next pass ends it
        if row.state is SessionState.HELD or (row.not_before_us or 0) >= self._until_us:
            return True
        return self._could_run(row) is not None or self._quotas.refusal(row) is not None

    def _waiting_for(self, never: set[SessionId], depending: Mapping[SessionId, PendingRow]) -> set[SessionId]:
        """Those that depend on a session that does not end."""
        without_end = never | _arrays_of(never)
        return {
            name
            for name, row in depending.items()
            if any(self._does_not_end(link.session_id, never, without_end) for link in row.depends_on)
        }

    def _does_not_end(self, name: SessionId, never: set[SessionId], without_end: set[SessionId]) -> bool:
        state = self._dependencies.get(name)
        if state is None or state in ENDED:
            return False
        if name in self._lives:
            return name in without_end
        array_id = array_of(name)  # tasks that wait have no rows of their own
        return array_id not in self._rows or array_id in never


def _arrays_of(names: Iterable[SessionId]) -> set[SessionId]:
    """The job arrays of the tasks among some sessions."""
    return {array_id for name in names if (array_id := array_of(name)) is not None}
