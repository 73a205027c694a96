"""Sending of results: streams of listings and files to the server, and copies to the results store after the end."""

import asyncio
import logging
import os
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from aliquot.execution.agent.agent_folder import AgentFolder, KernelFolder
from aliquot.execution.agent.results.files import ResultFiles
from aliquot.execution.agent.results.metrics import metrics_of
from aliquot.execution.agent.retention import SteadyClock
from aliquot.execution.result_store import ResultStore, open_store
from aliquot.execution.settings import DiskRules
from aliquot_schema.async_tasks import Worker
from aliquot_schema.cluster.launching import KernelPhase, KernelReport
from aliquot_schema.cluster.results import FilePiece, FilesRequest, ResultFile
from aliquot_schema.cluster.streams import FRAME_BYTES_MAX
from aliquot_schema.errors import NotFound
from aliquot_schema.ids import AgentId, SessionId, kernel_parts

AGAIN_S: Final = 60.0
"""Pause after a copy that failed."""
REASON_CHARS_MAX: Final = 300
SWEEP_S: Final = 86_400.0
CHANGES_MAX: Final = 3
"""Copies of a session that are tried while its files still change."""
_COPIED: Final = "copied"
"""Mark in a session's folder: its results are in the store."""
_log: Final = logging.getLogger(__name__)


class ResultStream:
    """A listing or a part of a file as a stream to the server; nothing is read from the server."""

    def __init__(self, head: bytes, *, file: int | None = None, offset: int = 0, length: int = 0) -> None:
        self._head = head
        self._file = file
        self._offset = offset
        self._left = length

    async def read(self) -> bytes:
        """The next piece; empty at the end, or where the file has become shorter."""
        if self._head:
            data, self._head = self._head[:FRAME_BYTES_MAX], self._head[FRAME_BYTES_MAX:]
            return data
        if self._file is None or not self._left:
            return b""
        data = await asyncio.to_thread(os.pread, self._file, min(self._left, FRAME_BYTES_MAX), self._offset)
        self._offset += len(data)
        self._left -= len(data)
        return data

    async def write(self, data: bytes) -> None:
        """The server sends nothing; data is dropped."""

    async def end(self) -> None:
        """The server sends nothing."""

    async def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


class ResultCopies:
    """Copies results of ended sessions to the store, one session after the other; a failed copy is tried again."""

    def __init__(
        self,
        agent_id: AgentId,
        *,
        folder: AgentFolder,
        files: ResultFiles,
        store: ResultStore | None,
        kept_s: float | None,
        worker: Worker,
    ) -> None:
        """
        Args:
            store: None = results stay on this agent.
            kept_s: retention of copies; None = for ever.
            worker: a pool of its own: copies are long.
        """
        self._kept_s = kept_s
        self._agent_id = agent_id
        self._folder = folder
        self._files = files
        self._store = store
        self._worker = worker
        self._waiting: asyncio.Queue[SessionId] = asyncio.Queue()
        self._failed: dict[SessionId, str] = {}
        """Sessions whose last copy failed, and why, the oldest failure first."""

    def fault(self) -> str | None:
        """Why results are not in the store; None = nothing has failed."""
        if not self._failed:
            return None
        session_id, why = next(iter(self._failed.items()))
        others = f" and of {len(self._failed) - 1} more" if len(self._failed) > 1 else ""
        return f"the results of {session_id}{others} cannot be copied to results-folder; tried every minute: {why}"

    def add(self, session_id: SessionId) -> None:
        """A kernel of a session has ended here."""
        if self._store is not None:
            self._mark(session_id).unlink(missing_ok=True)
            self._waiting.put_nowait(session_id)

    async def sweep(self) -> None:
        """Delete expired copies of all agents, once a day: the agents of some are gone."""
        clock = SteadyClock(self._folder)
        while self._store is not None and self._kept_s is not None:
            try:
                is_steady = await self._worker.run(clock.is_steady)
                old = await self._worker.run(self._store.expire, self._kept_s) if is_steady else []
                if old:
                    _log.warning("deleted the copied results of %d sessions: retention is over", len(old))
            except Exception as error:
                _log.warning("expired copies of results cannot be deleted: %s", error)
            await asyncio.sleep(SWEEP_S)

    async def run(self) -> None:
        """Copy forever; begins with what an earlier run of this agent did not finish."""
        if self._store is None:
            return
        for name in await self._worker.run(self._unfinished):
            self._waiting.put_nowait(name)
        while True:
            session_id = await self._waiting.get()
            try:
                await self._worker.run(self._copy, self._store, session_id)
                self._failed.pop(session_id, None)
            except NotFound:
                self._failed.pop(session_id, None)
            except Exception as error:
                _log.warning("the results of %s cannot be copied, it is tried again: %s", session_id, error)
                self._failed[session_id] = str(error).replace("\0", "")[:REASON_CHARS_MAX] or type(error).__name__
                self._worker.spawn(self._again(session_id))

    async def _again(self, session_id: SessionId) -> None:
        await asyncio.sleep(AGAIN_S)
        self._waiting.put_nowait(session_id)

    def _unfinished(self) -> list[SessionId]:
        names = [SessionId(name) for name in sorted(os.listdir(self._folder.sessions))]
        return [name for name in names if not self._mark(name).exists()]

    def _copy(self, store: ResultStore, session_id: SessionId) -> None:
        for _ in range(CHANGES_MAX):
            listing = self._files.listing(session_id, hashed_bytes_max=0)
            if not listing.files and not listing.left_out:
                break
            wanted = self._files.hashed(session_id, self._files.within_quota(listing))
            kept = tuple(file for file in wanted if self._keep(store, session_id, file))
            draft = self._folder.drafts / f"results-{os.urandom(8).hex()}"
            left_out = listing.left_out + len(listing.files) - len(kept)
            store.finish(session_id, self._agent_id, replace(listing, files=kept, left_out=left_out), draft=draft)
            if len(kept) == len(wanted):
                break
        self._mark(session_id).touch(mode=0o600)

    def _keep(self, store: ResultStore, session_id: SessionId, file: ResultFile) -> bool:
        """Whether the file is in the store; False if it changed since it was hashed."""
        if file.sha256 is None:
            return False
        try:
            descriptor = self._files.open(session_id, file.path)
        except NotFound:
            return False
        with open(descriptor, "rb", buffering=0) as source:
            return store.keep(session_id, file.sha256, source, size=file.size)

    def _mark(self, session_id: SessionId) -> Path:
        return self._folder.sessions / session_id / _COPIED


class Results:
    """The results of an agent's sessions. Listings are made one after the other, by one thread."""

    def __init__(self, agent_id: AgentId, *, folder: AgentFolder, rules: DiskRules) -> None:
        """
        Raises:
            ConfigurationError: the library for the results folder is missing.
        """
        self._files = ResultFiles(folder.sessions, rules=rules)
        self._worker = Worker(f"results-{agent_id}")
        self._copies = ResultCopies(
            agent_id,
            folder=folder,
            files=self._files,
            store=open_store(rules.results_folder),
            kept_s=rules.results_kept_s,
            worker=self._worker,
        )
        self._listing = asyncio.Lock()

    def start(self) -> None:
        """Copy the results of sessions that end from now on, or ended in an earlier run of this agent."""
        self._worker.spawn(self._copies.run())
        self._worker.spawn(self._copies.sweep())

    async def close(self) -> None:
        """End after the steps under way."""
        await self._worker.close()

    def copy_fault(self) -> str | None:
        """See `ResultCopies.fault`."""
        return self._copies.fault()

    def note(self, report: KernelReport) -> None:
        """A kernel's phase has changed."""
        if report.phase is KernelPhase.EXITED:
            self._copies.add(kernel_parts(report.kernel_id)[0])

    async def open(self, folder: KernelFolder, asked: FilesRequest) -> ResultStream:
        """Open a stream.

        Raises:
            NotFound: there is no such file, or no results.
        """
        session_id = folder.session_id
        if asked.metrics is not None:
            async with self._listing:
                report = await self._worker.run(metrics_of, folder, asked.metrics)
            return ResultStream(msgspec.json.encode(report))
        if asked.path is None:
            async with self._listing:
                found = await self._worker.run(self._files.listing, session_id)
            return ResultStream(msgspec.json.encode(found))
        file = await self._worker.run(self._files.open, session_id, asked.path)
        found_now = os.fstat(file)
        size = found_now.st_size
        offset = min(size, asked.offset if asked.offset >= 0 else max(0, size + asked.offset))
        length = size - offset if asked.length is None else min(asked.length, size - offset)
        head = FilePiece(size=size, changed_ns=max(0, found_now.st_mtime_ns), offset=offset, length=length)
        return ResultStream(msgspec.json.encode(head) + b"\n", file=file, offset=offset, length=length)
