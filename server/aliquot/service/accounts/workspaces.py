"""Workspaces of users: uploads of working directories, their limits and retention.

Contents are stored once per user and never shared between users: a hash cannot reveal that another user has a file.
Each stored workspace is in the audit log. A workspace is kept while a session that has not ended uses it, and for the
retention time after its last upload or use.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Set
from typing import Final, ParamSpec, Protocol, TypeVar

from msgspec import Struct

from aliquot.service.access import check_may_submit
from aliquot.service.accounts.workspace_transfers import WorkspaceTransfers
from aliquot.service.lifecycle.kernel_reports import give_up_start
from aliquot.service.ports import Clock
from aliquot.service.retention import ClockJumps
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.cluster.workspaces import (
    BLOCK_BYTES,
    Workspace,
    WorkspaceUpload,
    WorkspaceUse,
    workspace_fault,
)
from aliquot_schema.errors import Forbidden, InvalidRequest, LimitExceeded, NotFound, Unavailable
from aliquot_schema.ids import KernelId, RequestId, UserId
from aliquot_schema.orchestration import Action
from aliquot_schema.requests import Caller, Role
from aliquot_schema.resources.units import size_text
from aliquot_schema.states import PENDING, SessionState
from aliquot_schema.views.session_parts import session_label
from aliquot_schema.views.sessions import SessionView

NO_UPLOADS: Final = (
    "this cluster takes no uploads: it has several servers, and an administrator has not set `workspaces-folder`, a "
    "folder or s3:// place that all of them share; use a folder that the nodes share, with --chdir"
)
SWEEP_S: Final = 3600.0
TO_START: Final = PENDING | {SessionState.SCHEDULED, SessionState.ALLOCATING}
P = ParamSpec("P")
T = TypeVar("T")
log: Final = logging.getLogger("aliquot.workspaces")


class WorkspaceStore(Protocol):
    """Stored workspaces by user. All methods block on I/O, and raise OSError."""

    def blocks(self, owner: UserId) -> Mapping[str, int]:
        """Sizes of a user's blocks."""

    def keep(self, owner: UserId, data: bytes) -> str:
        """Store a block; returns its hash."""

    def finish(self, owner: UserId, workspace: Workspace) -> None:
        """Store a listing, or mark it as used now."""

    def read(self, owner: UserId, id: str) -> Workspace | None:
        """A listing; None if there is none."""

    def block(self, owner: UserId, block: str) -> bytes:
        """A content. Raises FileNotFoundError."""

    def check_there(self, owner: UserId) -> None:
        """Check that the store had workspaces of a user before. Raises OSError: it had none, or is not mounted."""

    def expire(self, kept_s: float, *, used: Set[WorkspaceUse], owner: UserId | None = None) -> int:
        """Delete the listings that were used before that time, and blocks that no listing names; returns how many
        listings.

        Args:
            used: workspaces that stay.
            owner: of this user only.
        """


class WorkspaceRules(Struct, frozen=True, kw_only=True):
    """Limits of workspaces."""

    bytes_max: int
    """Of one workspace."""
    user_bytes_max: int
    """Of all contents of one user."""
    kept_s: float
    """After the last use."""


class Workspaces:
    """Use cases of workspaces."""

    def __init__(
        self, *, state: State, journal: Journal, clock: Clock, store: WorkspaceStore, rules: WorkspaceRules
    ) -> None:
        self._state = state
        self._journal = journal
        self._clock = clock
        self._store = store
        self._rules = rules
        self._bytes: dict[UserId, int] = {}
        """Contents of each user, counted when a listing or the first block arrives."""
        self.transfers = WorkspaceTransfers(
            state,
            read=store.read,
            block=store.block,
            check_there=store.check_there,
            give_up=self._give_up,
            monotonic=clock.monotonic,
        )

    async def _give_up(self, kernel_id: KernelId, why: str) -> None:
        """End the start of a session whose files cannot be read."""
        log.error("workspaces cannot be read, and the sessions that need them wait without devices: %s", why)
        now_us = self._clock.now_us()
        await self._journal.transact(
            lambda draft: give_up_start(draft, kernel_id, why, now_us=now_us), actor="system:workspaces"
        )

    async def upload(self, caller: Caller, workspace: Workspace) -> WorkspaceUpload:
        """Store a listing if all its blocks are there; otherwise say which ones to send first.

        Raises:
            Forbidden: the caller is a viewer.
            InvalidRequest: the listing is not valid.
            LimitExceeded: it, or all contents of the caller, would be too large.
            Unavailable: the store cannot be read or written.
        """
        check_may_submit(caller)
        fault = workspace_fault(workspace)
        if fault is not None:
            raise InvalidRequest(f"workspace: {fault}", field="workspace")
        self._check_size("the working directory", workspace.bytes_total, self._rules.bytes_max)
        if self._is_waited_for(caller.user):  # not into a mount point without its folder
            await self._ask(self._store.check_there, caller.user)
        known = await self._ask(self._store.blocks, caller.user)
        missing = [(block, size) for block, size in workspace.blocks if known.get(block) != size]
        needed = sum(size for _, size in missing)
        if sum(known.values()) + needed > self._rules.user_bytes_max:
            await self._ask(self._store.expire, 0.0, used=self._used(), owner=caller.user)
            known = await self._ask(self._store.blocks, caller.user)
            missing = [(block, size) for block, size in workspace.blocks if known.get(block) != size]
            needed = sum(size for _, size in missing)
        self._bytes[caller.user] = sum(known.values())
        self._check_size("your uploads", self._bytes[caller.user] + needed, self._rules.user_bytes_max)
        if not missing:
            await self._finish(caller, workspace)
        return WorkspaceUpload(
            id=workspace.id,
            missing=tuple(block for block, _ in missing),
            files=len(workspace.files),
            bytes=workspace.bytes_total,
        )

    async def keep(self, caller: Caller, data: bytes) -> None:
        """Store a block, as a listing was told that it is missing. Raises as `upload`."""
        check_may_submit(caller)
        if not 0 < len(data) <= BLOCK_BYTES:
            raise InvalidRequest(f"workspace: a block has 1 to {BLOCK_BYTES} bytes", field="workspace")
        if caller.user not in self._bytes:  # the listing came to another server, or before a restart
            known = await self._ask(self._store.blocks, caller.user)
            self._bytes.setdefault(caller.user, sum(known.values()))
        self._check_size("your uploads", self._bytes[caller.user] + len(data), self._rules.user_bytes_max)
        self._bytes[caller.user] += len(data)
        await self._ask(self._store.keep, caller.user, data)

    async def of_session(self, caller: Caller, session: SessionView) -> Workspace | None:
        """The workspace of a session; None if it has none.

        Raises:
            Forbidden: the caller is neither the owner nor an admin.
            NotFound: it has expired.
        """
        if caller.user != session.owner and caller.role < Role.ADMIN:
            whose = f"{session_label(session)} belongs to {session.owner}"
            hint = caller.scope_hint(Role.ADMIN)
            raise Forbidden(f"{whose}; only its owner and admins may read its working directory{hint}")
        if session.workspace is None:
            return None
        return await self._read(WorkspaceUse(owner=UserId(session.owner), id=session.workspace))

    async def check(self, owner: UserId, id: str) -> None:
        """Check that a submitted session's workspace is stored, and keep it longer.

        Raises:
            InvalidRequest: the user has no such workspace.
        """
        try:
            found = await self._read(WorkspaceUse(owner=owner, id=id))
        except NotFound:
            text = f"workspace: {owner} has no workspace {id}, or it has expired; upload it again"
            raise InvalidRequest(text, field="workspace") from None
        await self._ask(self._store.finish, owner, found)

    async def run(self, jumps: ClockJumps) -> None:
        """Delete expired workspaces, every hour except after a clock jump, until canceled."""
        while True:
            try:
                if jumps.is_steady():
                    await self._expire()
            except Unavailable as error:
                log.warning("expired workspaces cannot be deleted: %s", error.message)
            except Exception:
                log.exception("expired workspaces cannot be deleted")
            await self._clock.sleep(SWEEP_S)

    async def _expire(self) -> None:
        count = await self._ask(self._store.expire, self._rules.kept_s, used=self._used())
        if count:
            log.info("deleted %d workspaces: retention is over", count)

    async def _finish(self, caller: Caller, workspace: Workspace) -> None:
        """Store a listing, after the upload is in the audit log if it is new."""
        if await self._ask(self._store.read, caller.user, workspace.id) is None:
            await self._record(caller, workspace)
        await self._ask(self._store.finish, caller.user, workspace)

    async def _record(self, caller: Caller, workspace: Workspace) -> None:
        facts = {
            "workspace": workspace.id,
            "files": str(len(workspace.files)),
            "bytes": str(workspace.bytes_total),
        }

        def record(draft: UnitOfWork) -> None:
            draft.put(Action(id=f"workspace/{caller.user}", facts=facts), "workspace_uploaded")

        await self._journal.transact(record, actor=caller.actor, request_id=RequestId(caller.request_id))

    async def _read(self, use: WorkspaceUse) -> Workspace:
        found = await self._ask(self._store.read, use.owner, use.id)
        if found is None:
            raise NotFound(f"workspace {use.id} has expired", kind="workspace", id=use.id)
        return found

    def _used(self) -> frozenset[WorkspaceUse]:
        """Workspaces of sessions that have not ended. Not for a thread, which could see the sessions change."""
        return frozenset(
            WorkspaceUse(owner=session.owner, id=session.spec.workspace)
            for session in self._state.sessions.values()
            if session.spec.workspace is not None and not session.is_ended
        )

    def _is_waited_for(self, user: UserId) -> bool:
        """Whether a session of a user is still to start with what was uploaded before."""
        return any(
            session.owner == user and session.spec.workspace is not None and session.state in TO_START
            for session in self._state.sessions.values()
        )

    async def _ask(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await asyncio.to_thread(call, *args, **kwargs)
        except OSError as error:
            raise Unavailable(f"the workspaces folder cannot be used: {error}") from None

    def _check_size(self, what: str, size: int, most: int) -> None:
        if size > most:
            text = f"workspace: {what} would have {size_text(size)}; {size_text(most)} are allowed. List large files"
            raise LimitExceeded(
                f"{text} in .gitignore, and put data where the nodes can read it", field="workspace", limit=most,
                actual=size,
            )  # fmt: skip
