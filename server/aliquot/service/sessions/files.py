"""Results of sessions: lists and reads the files of RESULT_DIR, on the session's agent or in the results folder; and
reads the metrics in their output.

Like output, they are for the owner and admins. Each file that is opened is in the audit log.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterator, Sequence
from itertools import chain
from typing import Final, Protocol

from aliquot.service.access import check_may_read_output, check_runs
from aliquot.service.ports import Clock, Store
from aliquot.service.sessions.agent_files import AgentFiles, OpenedResult
from aliquot.service.sessions.session_loader import EvictedSessionLoader
from aliquot.service.sessions.streams import AccessLog, StreamSource, check_has_begun_with
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot_schema.cluster.results import (
    FilePiece,
    FilesRequest,
    ResultFile,
    ResultListing,
    request_fault,
)
from aliquot_schema.errors import AliquotError, InvalidRequest, NotFound, StateConflict, Unavailable
from aliquot_schema.ids import AgentId, KernelId, SessionId, task_id
from aliquot_schema.metrics import MetricReport
from aliquot_schema.requests import Caller
from aliquot_schema.resources.leases import Kernel
from aliquot_schema.sessions import Session
from aliquot_schema.states import KernelState
from aliquot_schema.views.results import TaskMetrics, TaskMetricsPage

ASKED_MAX: Final = 16
"""Agents that are asked for the metrics of tasks at the same time."""
REPORTS_MAX: Final = 2_000


class CopiedResults(Protocol):
    """The results folder. Its methods block, and raise OSError."""

    def listing(self, session_id: SessionId, agent_id: AgentId) -> ResultListing | None:
        """What a session left on an agent; None if there is no copy."""

    def read(self, session_id: SessionId, sha256: str, *, offset: int, length: int) -> Iterator[bytes]:
        """A part of a content."""


class SessionFiles:
    """Lists and reads results for callers."""

    def __init__(
        self,
        *,
        state: State,
        store: Store,
        journal: Journal,
        clock: Clock,
        source: StreamSource,
        copies: CopiedResults | None,
    ) -> None:
        """
        Args:
            copies: None = results are on their agents only.
        """
        self._state = state
        self._store = store
        self._log = AccessLog("result", journal=journal, clock=clock)
        self._agents = AgentFiles(source)
        self._copies = copies
        self._asking = asyncio.Semaphore(ASKED_MAX)
        self._reports: OrderedDict[KernelId, MetricReport] = OrderedDict()
        """Metrics of kernels that have ended."""

    async def listing(self, caller: Caller, session_id: str, *, rank: int) -> ResultListing:
        """The files of the agent that runs, or last ran, a rank of a session.

        Raises:
            NotFound: no such session or rank, or its results are no longer there.
            Forbidden: the caller is neither the owner nor an admin.
            StateConflict: it has not started.
            Unavailable: the agent is unreachable, and there is no copy.
        """
        _, kernel = await self._kernel(caller, session_id, rank)
        try:
            return await self._agents.listing(kernel)
        except (NotFound, Unavailable):
            copied = await self._copy(kernel)
            if copied is None:
                raise
            return copied

    async def open(
        self, caller: Caller, session_id: str, path: str, *, rank: int, offset: int = 0, length: int | None = None
    ) -> OpenedResult:
        """A part of a file, after that is in the audit log.

        Args:
            offset: of the first byte; negative counts from the end. After the end, the part is empty.
            length: bytes at most; None = to the end.
        Raises:
            InvalidRequest: the path or the part is not valid.
            NotFound: as for `listing`, or there is no such file.
            Forbidden, StateConflict, Unavailable: as for `listing`.
        """
        asked = FilesRequest(path=path, offset=offset, length=length)
        fault = request_fault(asked)
        if fault is not None:
            raise InvalidRequest(fault, field="path")
        _, kernel = await self._kernel(caller, session_id, rank)
        try:
            opened = await self._agents.open(kernel, asked)
        except (NotFound, Unavailable):
            found = await self._open_copy(kernel, path, offset=offset, length=length)
            if found is None:
                raise
            opened = found
        try:
            facts = {"session": kernel.session_id, "kernel": kernel.id, "path": path}
            await self._log.record(caller, "result_opened", facts, once=True)
        except BaseException:
            await opened.content.aclose()
            raise
        return opened

    async def metrics(self, caller: Caller, session_id: str, *, rank: int) -> MetricReport:
        """The metrics in the output of a rank, of the newest attempt that has started.

        Raises:
            NotFound, Forbidden, StateConflict, Unavailable: as for `listing`.
        """
        session, kernel = await self._kernel(caller, session_id, rank)
        return await self._metrics_of(session, kernel)

    async def task_metrics(self, caller: Caller, array_id: str, *, first: int, after: int | None) -> TaskMetricsPage:
        """The metrics of the tasks of a job array that have started and whose agents answer.

        Raises:
            NotFound: no such session, or it is no array.
            Forbidden: the caller is neither the owner nor an admin.
        """
        async with EvictedSessionLoader(state=self._state, store=self._store) as recall:
            await recall.session(SessionId(array_id))
            array = self._state.sessions.get(SessionId(array_id))
            if array is None:
                raise NotFound(f"there is no session {array_id[:80]}", kind="session", id=array_id[:80])
            check_may_read_output(caller, array)
            if array.tasks is None:
                raise NotFound(f"{array.id} is no job array", kind="session", id=array.id)
            tasks = array.tasks
            begun = chain(tasks.active, tasks.completed, tasks.failed, tasks.canceled)
            rest = sorted(index for index in begun if after is None or index > after)
            await recall.tasks(array.id, rest[:first])
            found = await asyncio.gather(*(self._task(array.id, index) for index in rest[:first]))
        return TaskMetricsPage(
            tasks=tuple(one for one in found if one is not None), end=rest[first - 1] if len(rest) > first else None
        )

    async def _task(self, array_id: SessionId, index: int) -> TaskMetrics | None:
        session = self._state.sessions.get(task_id(array_id, index=index))
        if session is None:
            return None
        try:
            async with self._asking:
                report = await self._metrics_of(session, self._kernel_of(session, 0))
        except AliquotError:
            return None
        return TaskMetrics(index=index, session_id=session.id, state=session.state, series=report.series)

    async def _metrics_of(self, session: Session, kernel: Kernel) -> MetricReport:
        known = self._reports.get(kernel.id)
        if known is not None:
            return known
        report = await self._agents.metrics(kernel, session.spec.metrics)
        if kernel.state is KernelState.EXITED and not report.is_partial:
            self._reports[kernel.id] = report
            if len(self._reports) > REPORTS_MAX:
                self._reports.popitem(last=False)
        return report

    async def _kernel(self, caller: Caller, session_id: str, rank: int) -> tuple[Session, Kernel]:
        wanted = SessionId(session_id)
        async with EvictedSessionLoader(state=self._state, store=self._store) as recall:
            await recall.session(wanted)
            session = self._state.sessions.get(wanted)
            if session is None:
                raise NotFound(f"there is no session {session_id[:80]}", kind="session", id=session_id[:80])
            check_may_read_output(caller, session)
            return session, self._kernel_of(session, rank)

    def _kernel_of(self, session: Session, rank: int) -> Kernel:
        check_runs(session)
        if not 0 <= rank < session.spec.cluster_size:
            last = session.spec.cluster_size - 1
            raise NotFound(f"{session.id} has no rank {rank}; its ranks are 0 to {last}", kind="rank", id=str(rank))
        kernels = self._state.kernels_of.get(session.id, {}).values()
        started = [kernel for kernel in kernels if kernel.rank == rank and kernel.started_us is not None]
        if started:
            return max(started, key=lambda kernel: kernel.attempt)
        check_has_begun_with(session, rank, self._state.kernels_in(session))
        raise StateConflict(
            f"{session.id} has no results: none of its attempts has started", id=session.id, state=str(session.state)
        )

    async def _copy(self, kernel: Kernel) -> ResultListing | None:
        if self._copies is None:
            return None
        try:
            return await asyncio.to_thread(self._copies.listing, kernel.session_id, kernel.agent_id)
        except OSError as error:
            raise Unavailable(f"the results folder cannot be read: {error}") from None

    async def _open_copy(self, kernel: Kernel, path: str, *, offset: int, length: int | None) -> OpenedResult | None:
        copied = await self._copy(kernel)
        if copied is None or self._copies is None:
            return None
        file = _find(copied.files, path)
        if file is None or file.sha256 is None:
            raise NotFound(f"{kernel.session_id} has no result {path[:200]!r}", kind="file", id=path[:200])
        begin = min(file.size, offset if offset >= 0 else max(0, file.size + offset))
        count = file.size - begin if length is None else min(length, file.size - begin)
        blocks = self._copies.read(kernel.session_id, file.sha256, offset=begin, length=count)
        piece = FilePiece(size=file.size, changed_ns=file.changed_ns, offset=begin, length=count)
        return OpenedResult(piece=piece, content=_copied(blocks, left=count))


async def _copied(blocks: Iterator[bytes], *, left: int) -> AsyncGenerator[bytes, None]:
    try:
        while left and (block := await asyncio.to_thread(next, blocks, b"")):
            left -= len(block)
            yield block
    except OSError as error:
        raise Unavailable(f"the results folder cannot be read: {error}") from None
    if left:
        raise Unavailable("a copy in the results folder is incomplete")


def _find(files: Sequence[ResultFile], path: str) -> ResultFile | None:
    return next((file for file in files if file.path == path), None)
