"""Dependencies: the states of sessions that others depend on, in one simulated future.

A job array ends with its last task.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Final

from aliquot.core.foresight.buckets import array_of
from aliquot.core.model.snapshot import PendingRow, RunningRow
from aliquot_schema.ids import SessionId
from aliquot_schema.states import SessionState

_BY_WEIGHT: Final = (SessionState.COMPLETED, SessionState.CANCELED, SessionState.FAILED)
"""An array ends in the last of these that any of its tasks ended in."""


class Dependencies:
    """Follows the job arrays that sessions depend on."""

    def __init__(
        self,
        states: Mapping[SessionId, SessionState],
        *,
        queue: Iterable[PendingRow],
        running: Iterable[RunningRow],
        array_ends: Mapping[SessionId, SessionState],
    ) -> None:
        """
        Args:
            states, array_ends: as in a snapshot.
        """
        self.states: dict[SessionId, SessionState] = {}
        """As in a snapshot."""
        self._arrays: dict[SessionId, SessionId] = {}
        """The array of each task that runs or was queued again; an array with waiting tasks is listed by its own id."""
        self._left: Counter[SessionId] = Counter()
        """Number of entries of `_arrays` for each array."""
        self._ends_as: dict[SessionId, SessionState] = dict(array_ends)
        """The state that an array would end in now; missing: completed."""
        self.replace(states, queue=queue, running=running)

    def copy(self) -> "Dependencies":
        """An independent copy."""
        other = copy(self)
        other.states, other._arrays = self.states.copy(), self._arrays.copy()
        other._left, other._ends_as = self._left.copy(), self._ends_as.copy()
        return other

    def replace(
        self, states: Mapping[SessionId, SessionState], *, queue: Iterable[PendingRow], running: Iterable[RunningRow]
    ) -> None:
        """Replace the states."""
        is_known = states.keys() <= self.states.keys()
        self.states = dict(states)
        if not is_known:
            for row in queue:
                self.join(row)
            for run in running:
                self.start(run.session_id, run.array_id)

    def join(self, row: PendingRow) -> None:
        """Note a row of the queue."""
        self.start(row.session_id, array_of(row.session_id) if row.tasks is None else row.session_id)

    def start(self, run_id: SessionId, array_id: SessionId | None) -> None:
        """Note a running session; `array_id` is that of a task."""
        if array_id is not None and array_id in self.states and run_id not in self._arrays:
            self._arrays[run_id] = array_id
            self._left[array_id] += 1

    def start_last(self, name: SessionId) -> None:
        """Note that no more tasks of a job array wait in its row. Call it after `start` of the last one; a session that
        is no array is not affected."""
        if self._arrays.get(name) == name:
            self.end(name, SessionState.COMPLETED)

    def end(self, name: SessionId, state: SessionState) -> bool:
        """Note the end of a run, or that a row has left the queue unstarted; returns whether a state has changed."""
        array_id = self._arrays.pop(name, None)
        is_own = name in self.states and array_id != name
        if is_own:
            self.states[name] = state
        if array_id is None:
            return is_own
        self._left[array_id] -= 1
        worst = max(state, self._ends_as.get(array_id, SessionState.COMPLETED), key=_weight)
        self._ends_as[array_id] = worst
        if array_id in self.states and not self._left[array_id]:
            self.states[array_id] = worst
            return True
        return is_own


def _weight(state: SessionState) -> int:
    return _BY_WEIGHT.index(state) if state in _BY_WEIGHT else 0
