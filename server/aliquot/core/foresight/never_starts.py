"""Never starts: waiting sessions that start in no possible future, so that simulations do not wait for them."""

from typing import Final

from msgspec.structs import replace

from aliquot.core.foresight.buckets import array_of
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, Snapshot
from aliquot.core.quota import QuotaTracker
from aliquot.core.scheduler.eligibility import MET_BY, broken_dependency
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
        arrays = [array_id for name in self._rows if (array_id := array_of(name)) is not None]
        self._lives: Final = {*ran, *self._rows, *arrays}
        """Sessions that run or wait, and the arrays of tasks that do."""
        self._stays: set[SessionId] = set()
        """Sessions found that also stay in the queue; the others leave it once a dependency can no longer be met."""
        self._arrays: set[SessionId] = set()
        """Job arrays of the tasks in `_stays`."""
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
        while True:
            never |= {name for name, row in depending.items() if self._waits_for(row)}
            depending = {name: row for name, row in depending.items() if name not in never}
            more = {name for name in never - self._stays if self._may_stay(self._rows[name])}
            if not more:
                return frozenset(never)
            self._stays |= more
            self._arrays |= {array_id for name in more if (array_id := array_of(name)) is not None}

    def _is_held_back(self, row: PendingRow) -> bool:
        if broken_dependency(row.depends_on, self._dependencies) is not None:
            return False  # the next pass ends it
        if row.state is SessionState.HELD or (row.not_before_us or 0) >= self._until_us:
            return True
        return self._could_run(row) is not None or self._quotas.refusal(row) is not None

    def _waits_for(self, row: PendingRow) -> bool:
        """Whether it depends on a session that does not end."""
        return any(self._does_not_end(link.session_id) for link in row.depends_on)

    def _may_stay(self, row: PendingRow) -> bool:
        """Whether it stays in the queue: each session it depends on never ends, or has ended as required."""
        return all(
            self._does_not_end(link.session_id) or self._dependencies.get(link.session_id) in MET_BY[link.condition]
            for link in row.depends_on
        )

    def _does_not_end(self, name: SessionId) -> bool:
        state = self._dependencies.get(name)
        if state is None or state in ENDED:
            return False
        if name in self._lives:
            return name in self._stays or name in self._arrays
        array_id = array_of(name)  # tasks that wait have no rows of their own
        return array_id not in self._rows or array_id in self._stays
