"""Outputs of a job array: of all tasks, as they start, until the array has ended."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Final, Protocol

from msgspec import Struct

from aliquot.client.errors import GraphQLFault, is_unavailable
from aliquot.client.generated.queries_types import LogChunk
from aliquot.client.generated.sessions import ArrayTasks, Session
from aliquot_schema.errors import NotFound
from aliquot_schema.intervals import Intervals


class SessionReads(Protocol):
    """What is read of sessions; see `sessions.SessionCalls`."""

    def states(self, id: str) -> AsyncGenerator[Session, None]:
        """The state of a session until it has ended."""

    async def get_session(self, id: str) -> Session:
        """The present state of a session."""

    def outputs(self, id: str, *, offsets: Mapping[int, int], attempt: int) -> AsyncGenerator[LogChunk, None]:
        """The outputs of several ranks of an attempt."""


OnCut = Callable[[str], None]
"""Called with the reason why an output cannot be read now; it is asked for again until it can be, or has ended."""
TASKS_FOLLOWED: Final = 16
"""Tasks followed at one time; each kernel needs a connection. Further ones follow when these have ended."""
CHUNKS_WAITING: Final = 64
POLL_S: Final = 0.2
"""Interval between queries of a task whose attempt has ended, until the next one or its end."""
CUT_PAUSE_S: Final = 1.0
"""Pause before an output that could not be read, as its agent is lost, is asked for again."""
CUT_READS_MAX: Final = 10
"""Attempts to read the output of a task that has ended; its agent or a server may be back within some seconds."""


class TaskPosition(Struct, frozen=True, kw_only=True):
    """How far the output of a task was read."""

    attempt: int
    offsets: Mapping[int, int]
    """By rank."""


class TaskChunk(Struct, frozen=True, kw_only=True):
    """A piece of the output of one task."""

    index: int
    attempt: int
    ranks: int
    """Kernels of the task."""
    chunk: LogChunk


def started_tasks(tasks: ArrayTasks) -> list[int]:
    """Indices of the tasks that have, or may have, a session of their own; in ascending order."""
    sets = (tasks.active, tasks.completed, tasks.failed, tasks.canceled)
    return sorted(index for one in sets if one.count for index in Intervals.parse(one.indices))


class _Tasks:
    """Follows the tasks of an array as they start, and puts their output into one queue; None at the end."""

    def __init__(
        self, calls: SessionReads, array_id: str, *, read: Mapping[int, TaskPosition], on_cut: OnCut | None
    ) -> None:
        self._calls = calls
        self._array_id = array_id
        self._read = read
        self._on_cut = on_cut
        self._cut: dict[int, str] = {}
        """Tasks whose output cannot be read now, and why."""
        self._room = asyncio.Semaphore(TASKS_FOLLOWED)
        self._followed: dict[int, asyncio.Task[None]] = {}
        self.arrived: asyncio.Queue[TaskChunk | Exception | None] = asyncio.Queue(maxsize=CHUNKS_WAITING)

    async def watch(self) -> None:
        """Follow until the array has ended."""
        try:
            async with aclosing(self._calls.states(self._array_id)) as states:
                async for array in states:
                    for index in () if array.tasks is None else started_tasks(array.tasks):
                        if index not in self._followed:
                            self._followed[index] = asyncio.create_task(self._follow(index))
            await asyncio.gather(*self._followed.values())
            await self.arrived.put(None)
        except Exception as error:
            await self.arrived.put(error)

    async def close(self) -> None:
        """Stop following."""
        for task in self._followed.values():
            task.cancel()
        await asyncio.gather(*self._followed.values(), return_exceptions=True)

    async def _follow(self, index: int) -> None:
        chunks = _task_output(
            self._calls, self._array_id, index, read=self._read.get(index), on_cut=partial(self._note_cut, index)
        )
        try:
            async with self._room, aclosing(chunks):
                async for chunk in chunks:
                    self._cut.pop(index, None)
                    await self.arrived.put(chunk)
        except Exception as error:
            await self.arrived.put(error)

    def _note_cut(self, index: int, why: str) -> None:
        if self._on_cut is not None and why not in self._cut.values():
            self._on_cut(why)
        self._cut[index] = why


async def task_outputs(
    calls: SessionReads, array_id: str, *, read: Mapping[int, TaskPosition], on_cut: OnCut | None = None
) -> AsyncGenerator[TaskChunk, None]:
    """The outputs of all tasks through all their attempts, in the order of arrival, until the array has ended.

    Args:
        read: by index, what is not read again.
        on_cut: called when outputs cannot be read, as their agent is lost; once for all its tasks.
    Raises:
        NotFound: there is no such array.
    """
    tasks = _Tasks(calls, array_id, read=read, on_cut=on_cut)
    watching = asyncio.create_task(tasks.watch())
    try:
        while (item := await tasks.arrived.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await tasks.close()


async def _task_output(
    calls: SessionReads, array_id: str, index: int, *, read: TaskPosition | None, on_cut: OnCut
) -> AsyncGenerator[TaskChunk, None]:
    id, attempt, is_cut, reads_left = f"{array_id}_{index}", 0, False, CUT_READS_MAX
    offsets: dict[int, int] = {}
    while True:
        try:
            session = await calls.get_session(id)
        except NotFound:  # canceled before it started
            return
        if session.attempt > attempt:
            attempt = session.attempt
            known = read.offsets if read is not None and read.attempt == attempt else {}
            offsets, is_cut = {rank: known.get(rank, 0) for rank in range(session.cluster_size)}, True
        if is_cut:
            try:
                async with aclosing(calls.outputs(id, offsets=offsets, attempt=attempt)) as chunks:
                    async for chunk in chunks:
                        offsets[chunk.rank] = chunk.next_offset
                        yield TaskChunk(index=index, attempt=attempt, ranks=session.cluster_size, chunk=chunk)
                is_cut = False
            except GraphQLFault as fault:
                if not (reads_left := _reads_left(session, fault, reads_left)):
                    return
                on_cut(str(fault))
                await asyncio.sleep(CUT_PAUSE_S)
        elif session.ended_at is not None:
            return
        else:
            await asyncio.sleep(POLL_S)


def _reads_left(session: Session, fault: GraphQLFault, left: int) -> int:
    """Attempts left to read an output; 0 for a task that failed with its agent. Raises the fault with the last one."""
    if not is_unavailable(fault.errors):
        raise fault
    if session.ended_at is None:
        return left
    if session.exit_code is None and session.signal is None:
        return 0
    if left == 1:
        raise fault
    return left - 1
