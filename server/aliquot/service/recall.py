"""Recall: sessions that have left memory since their end are read back for whoever changes them, and stay meanwhile."""

from collections import Counter
from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self

from aliquot.service.array_changes import to_retry
from aliquot.service.ports import SessionQuery, Store
from aliquot.service.state import State
from aliquot_schema.ids import SessionId, task_id, task_parts
from aliquot_schema.session_lists import SessionFilter
from aliquot_schema.sessions import Session

NAMES_AT_ONCE: Final = 1000
"""Tasks of an array that the store is asked for at once."""


class Recall:
    """Nothing that was looked for leaves memory before the exit."""

    def __init__(self, *, state: State, store: Store) -> None:
        self._state = state
        self._store = store
        self.looked_up: set[SessionId] = set()
        """Every id that was looked for, whether there is such a session or not."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._state.kept -= Counter(self.looked_up)

    async def session(self, session_id: SessionId) -> None:
        """Have a session in memory, and the array that it is a task of."""
        array_id, _ = task_parts(session_id)
        for wanted in dict.fromkeys((array_id, session_id)):
            self._keep((wanted,))
            await self._read(wanted)

    async def tasks_to_retry(self, session_id: SessionId) -> None:
        """Have those tasks of an array in memory that a retry of it runs again."""
        array = self._state.sessions.get(session_id)
        tasks = [] if array is None else [task_id(array.id, index=index) for index in to_retry(array)]
        self._keep(tasks)
        unknown = [name for name in tasks if name not in self._state.sessions]
        for first in range(0, len(unknown), NAMES_AT_ONCE):
            names = tuple(unknown[first : first + NAMES_AT_ONCE])
            asked = SessionQuery(where=SessionFilter(ids=names), limit=len(names))
            for task in await self._store.sessions(asked):
                await self._read(task.id)

    def _keep(self, names: Iterable[SessionId]) -> None:
        fresh = [name for name in names if name not in self.looked_up]
        self.looked_up.update(fresh)
        self._state.kept.update(fresh)

    async def _read(self, session_id: SessionId) -> None:
        if session_id not in self._state.sessions:
            records = await self._store.session_records(session_id)
            # One that has not ended comes by the log, from the server that it was submitted to.
            if any(isinstance(record, Session) and record.is_ended for record in records):
                self._state.recall(records)
