"""Session loader: loads ended sessions that were evicted from memory, and keeps them there while they are changed."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final, Self

from aliquot.service.lifecycle.arrays import to_retry
from aliquot.service.ports import SessionQuery, Store
from aliquot.service.state.state import State
from aliquot_schema.ids import SessionId, task_id, task_parts
from aliquot_schema.requests import SessionFilter
from aliquot_schema.sessions import Session

TASKS_PER_QUERY: Final = 1000


class EvictedSessionLoader:
    """Context manager: sessions that it loaded or looked up are not evicted before the exit."""

    def __init__(self, *, state: State, store: Store) -> None:
        self._state = state
        self._store = store
        self.looked_up: set[SessionId] = set()
        """Every id that was looked up, whether or not the session exists."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._state.kept -= Counter(self.looked_up)

    async def session(self, session_id: SessionId) -> None:
        """Load a session, and the array that it is a task of."""
        array_id, _ = task_parts(session_id)
        for wanted in dict.fromkeys((array_id, session_id)):
            self._pin((wanted,))
            await self._read(wanted)

    async def tasks_to_retry(self, session_id: SessionId) -> None:
        """Load the tasks of an array that a retry runs again."""
        array = self._state.sessions.get(session_id)
        if array is not None:
            await self.tasks(array.id, to_retry(array))

    async def tasks(self, array_id: SessionId, indices: Iterable[int]) -> None:
        """Load tasks of an array."""
        tasks = [task_id(array_id, index=index) for index in indices]
        self._pin(tasks)
        unknown = [name for name in tasks if name not in self._state.sessions]
        for first in range(0, len(unknown), TASKS_PER_QUERY):
            names = tuple(unknown[first : first + TASKS_PER_QUERY])
            asked = SessionQuery(where=SessionFilter(ids=names), limit=len(names))
            for task in await self._store.sessions(asked):
                await self._read(task.id)

    def _pin(self, names: Iterable[SessionId]) -> None:
        fresh = [name for name in names if name not in self.looked_up]
        self.looked_up.update(fresh)
        self._state.kept.update(fresh)

    async def _read(self, session_id: SessionId) -> None:
        if session_id not in self._state.sessions:
            records = await self._store.session_records(session_id)
            # One that has not ended arrives by the event log, from the server that it was submitted to.
            if any(isinstance(record, Session) and record.is_ended for record in records):
                self._state.recall(records)


@asynccontextmanager
async def kept_in_memory(session_id: SessionId, *, state: State, store: Store) -> AsyncIterator[None]:
    """Keep a session in memory, also one that left it."""
    async with EvictedSessionLoader(state=state, store=store) as recall:
        await recall.session(session_id)
        yield
