"""Cache of workspaces on an agent, and the stream by which the server brings one. See `cluster.workspaces`.

    workspaces/blocks/<2 digits>/<SHA-256>   a block
    workspaces/listings/<id>.json            a workspace whose blocks are all there
    packages/<owner and account>/            what uv keeps for sessions whose account has no home

What no session has used for `KEPT_S` is deleted. All methods of `WorkspaceCache` block on disk I/O.
"""

import asyncio
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from aliquot.execution.agent.job_user import JobUser
from aliquot_schema.async_tasks import Worker
from aliquot_schema.cluster.streams import FRAME_BYTES_MAX
from aliquot_schema.cluster.workspaces import (
    BLOCK_BYTES,
    LISTING_BYTES_MAX,
    Workspace,
    WorkspaceUse,
    WorkspaceWanted,
    workspace_fault,
)
from aliquot_schema.errors import InvalidRequest, NotFound, Unavailable
from aliquot_schema.ids import WORKSPACE_ID

KEPT_S: Final = 7 * 86_400.0
SWEEP_S: Final = 3600.0
"""Minimum interval between two searches for what is no longer used."""
PIECES_MAX: Final = 8
"""Pieces of a stream that wait for the disk."""
_HEAD_BYTES: Final = 8
_ANSWERS: Final = 2
"""What is wanted, and that it has arrived."""


class WorkspaceCache:
    """The blocks and listings that one agent has."""

    def __init__(self, folder: Path, *, packages: Path) -> None:
        self._packages = packages
        self._blocks = folder / "blocks"
        self._listings = folder / "listings"
        self._swept_at: float | None = None
        self.failures: dict[str, str] = {}
        """Of workspaces that could not be stored: why."""
        self._lock = threading.Lock()
        """A sweep deletes nothing that arrives meanwhile."""

    def has(self, id: str) -> bool:
        """Whether a workspace is complete here."""
        return WORKSPACE_ID.fullmatch(id) is not None and self._listing(id).is_file()

    def read(self, id: str) -> Workspace:
        """A complete workspace.

        Raises:
            NotFound: it is not here.
        """
        if WORKSPACE_ID.fullmatch(id) is None:
            raise NotFound(f"{id[:80]!r} is not the id of a workspace", kind="workspace", id=id[:80])
        try:
            return msgspec.json.decode(self._listing(id).read_bytes(), type=Workspace)
        except (OSError, msgspec.MsgspecError):
            raise NotFound(f"workspace {id} is not on this agent", kind="workspace", id=id) from None

    def missing(self, workspace: Workspace) -> list[str]:
        """The blocks that are not here; the others are marked as used."""
        with self._lock:
            return self._missing(workspace)

    def _missing(self, workspace: Workspace) -> list[str]:
        return [block for block, size in workspace.blocks if not self._touch(block, size)]

    def keep(self, block: str, data: bytes) -> None:
        """Store a block.

        Raises:
            InvalidRequest: it has another hash.
        """
        if hashlib.sha256(data).hexdigest() != block:
            raise InvalidRequest(f"a block is not what its hash {block[:12]} says", field="workspace")
        with self._lock:
            path = self.block(block)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._replace(path, data)

    def fail(self, id: str, blocks: Iterable[str], *, error: OSError | InvalidRequest) -> None:
        """Note that a workspace cannot be stored, and delete what was stored of it: the disk may be full.

        Blocks of workspaces that are complete stay. That the blocks of another attempt were deleted is no reason.
        """
        with self._lock:
            if self.has(id):
                return
            if not isinstance(error, FileNotFoundError) or id not in self.failures:
                self.failures[id] = (isinstance(error, OSError) and error.strerror) or str(error)
            for block in set(blocks) - self._listed_blocks():
                with suppress(OSError):
                    self.block(block).unlink()

    def _listed_blocks(self) -> set[str]:
        found: set[str] = set()
        for listing in self._listings.glob("*.json"):
            with suppress(NotFound):
                found.update(block for block, _ in self.read(listing.stem).blocks)
        return found

    def finish(self, workspace: Workspace) -> None:
        """Store the listing of a workspace whose blocks are all here.

        Raises:
            OSError: it cannot be written, or another workspace with the same blocks has failed meanwhile.
        """
        with self._lock:
            if self._missing(workspace):
                raise FileNotFoundError("a part of it is gone")
            self._listings.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._replace(self._listing(workspace.id), workspace.encoded())
        self.failures.pop(workspace.id, None)

    def block(self, block: str) -> Path:
        """The file of a block."""
        return self._blocks / block[:2] / block

    def open_packages(self, folder: Path, *, user: JobUser) -> None:
        """Make the folder of uv's cache that an account may write, or mark it as used."""
        with self._lock:
            self._packages.mkdir(exist_ok=True)
            self._packages.chmod(0o711)  # independent of the umask
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                os.utime(folder)
                return
            if user.switches:
                os.chown(folder, user.uid, user.gid)

    def sweep(self) -> None:
        """Delete what was not used for `KEPT_S`; at most once in `SWEEP_S`."""
        now = time.monotonic()
        if self._swept_at is not None and now - self._swept_at < SWEEP_S:
            return
        self._swept_at = now
        oldest = time.time() - KEPT_S
        with self._lock:
            for folder in (self._listings, self._blocks):  # in this order: a listing means that its blocks are here
                for path in sorted(folder.rglob("*")):
                    with suppress(OSError):
                        if path.is_file() and path.stat().st_mtime < oldest:
                            path.unlink()
            for path in self._packages.glob("*"):
                with suppress(OSError):
                    if path.stat().st_mtime < oldest:
                        self._empty(path)

    def _empty(self, folder: Path) -> None:
        """Delete what is in the folder. A session that still runs may fill it again."""
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)  # follows no links
            else:
                path.unlink(missing_ok=True)

    def _touch(self, block: str, size: int) -> bool:
        path = self.block(block)
        try:
            if path.stat().st_size != size:
                return False
            os.utime(path)
        except FileNotFoundError:
            return False
        return True

    def _listing(self, id: str) -> Path:
        return self._listings / f"{id}.json"

    def _replace(self, path: Path, data: bytes) -> None:
        draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
        try:
            draft.write_bytes(data)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


class WorkspaceStream:
    """The agent's side of the stream that brings a workspace."""

    def __init__(self, cache: WorkspaceCache, use: WorkspaceUse, *, worker: Worker) -> None:
        self._cache = cache
        self._use = use
        self._worker = worker
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue(PIECES_MAX)
        self._answers: asyncio.Queue[bytes | Unavailable] = asyncio.Queue()
        self._rest = bytearray()
        self._answered = 0
        self._kept: list[str] = []
        """Blocks that it has stored."""
        self._task = asyncio.create_task(self._receive())

    async def read(self) -> bytes:
        """The next piece of the answer; empty at the end.

        Raises:
            Unavailable: the server stopped in the middle.
        """
        answer = await self._answers.get()
        if isinstance(answer, Unavailable):
            raise answer
        return answer

    async def write(self, data: bytes) -> None:
        """Take a piece; waits for the disk. Pieces after the end are dropped."""
        if not self._task.done():
            await self._pieces.put(data)

    async def end(self) -> None:
        """The server sends nothing more."""
        await self.write(b"")

    async def close(self) -> None:
        """End, complete or not."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _receive(self) -> None:
        try:
            await self._worker.run(self._cache.sweep)
            await self._bring()
            self._answers.put_nowait(b"")
        except Unavailable as error:
            self._answers.put_nowait(error)
        except (OSError, InvalidRequest) as error:
            await self._worker.run(self._cache.fail, self._use.id, self._kept, error=error)
            # The server sends the order then, which is refused with the reason; a stream does not carry errors.
            while self._answered < _ANSWERS:
                self._answer(WorkspaceWanted())
            self._answers.put_nowait(b"")
        while not self._pieces.empty():  # a writer may be waiting
            self._pieces.get_nowait()

    async def _bring(self) -> None:
        data = await self._sized(LISTING_BYTES_MAX)
        try:
            workspace = msgspec.json.decode(data, type=Workspace)
        except msgspec.MsgspecError as error:
            raise InvalidRequest(f"workspace: {error}", field="workspace") from None
        fault = workspace_fault(workspace)
        if fault is not None or workspace.id != self._use.id:
            raise InvalidRequest(f"workspace: {fault or 'it has another id'}", field="workspace")
        wanted = await self._worker.run(self._cache.missing, workspace)
        self._answer(WorkspaceWanted(blocks=tuple(wanted)))
        for block in wanted:
            await self._worker.run(self._cache.keep, block, await self._sized(BLOCK_BYTES))
            self._kept.append(block)
        await self._worker.run(self._cache.finish, workspace)
        self._answer(WorkspaceWanted())

    def _answer(self, answer: WorkspaceWanted) -> None:
        self._answered += 1
        line = msgspec.json.encode(answer) + b"\n"
        for first in range(0, len(line), FRAME_BYTES_MAX):
            self._answers.put_nowait(line[first : first + FRAME_BYTES_MAX])

    async def _sized(self, most: int) -> bytes:
        size = int.from_bytes(await self._exactly(_HEAD_BYTES), "big")
        if size > most:
            raise InvalidRequest(f"workspace: {size} bytes at once; {most} are allowed", field="workspace")
        return await self._exactly(size)

    async def _exactly(self, size: int) -> bytes:
        while len(self._rest) < size:
            piece = await self._pieces.get()
            if not piece:
                raise Unavailable("the server stopped in the middle of a workspace")
            self._rest += piece
        data = bytes(self._rest[:size])
        del self._rest[:size]
        return data
