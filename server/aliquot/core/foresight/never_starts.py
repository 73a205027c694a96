"""Never starts: waiting sessions that start in no possible future. Futures need not be run until they have started."""

from typing import Final

from msgspec.structs import replace

from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, Snapshot
from aliquot.core.quota import QuotaTracker
from aliquot.core.scheduler.eligibility import broken_dependency
from aliquot.core.scheduler.feasibility import FeasibilityCache, feasible_agents
from aliquot_schema.ids import SessionId
from aliquot_schema.states import ENDED, SessionState


def never_starting(snapshot: Snapshot, policy: Policy, *, until_us: int) -> frozenset[SessionId]:
    """Waiting sessions that start in no future of a snapshot before a time.

    No held session is released, no agent is opened and no quota is raised there, and sessions depend on single sessions
    and tasks only: when all tasks of a job array have ended is not foreseen.
    """
    return _Search(snapshot, policy, until_us=until_us).found()


class _Search:
    def __init__(self, snapshot: Snapshot, policy: Policy, *, until_us: int) -> None:
        self._rows: Final = {row.session_id: row for row in snapshot.queue}
        self._running: Final = {row.session_id for row in snapshot.running}
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
        while more := {name for name, row in depending.items() if self._waits_for(row, never)}:
            never |= more
            depending = {name: row for name, row in depending.items() if name not in more}
        return frozenset(never)

    def _is_held_back(self, row: PendingRow) -> bool:
        if broken_dependency(row.depends_on, self._dependencies) is not None:
            return False  # the next pass ends it
        if row.state is SessionState.HELD or (row.not_before_us or 0) >= self._until_us:
            return True
        return self._could_run(row) is not None or self._quotas.refusal(row) is not None

    def _waits_for(self, row: PendingRow, never: set[SessionId]) -> bool:
        """Whether it depends on a session that does not end."""
        return any(self._does_not_end(link.session_id, never) for link in row.depends_on)

    def _does_not_end(self, name: SessionId, never: set[SessionId]) -> bool:
        state = self._dependencies.get(name)
        if state is None or state in ENDED or name in self._running:
            return False  # it has ended, or will end
        row = self._rows.get(name)
        return row is None or row.tasks is not None or name in never
