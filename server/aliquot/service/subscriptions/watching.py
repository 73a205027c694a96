"""Subscriptions: one session, all devices, the event log, the queue, and job output, as they change."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final

from msgspec import Struct

from aliquot.service.access import check_may_read_output, session_seen
from aliquot.service.audit.audit import AuditStore
from aliquot.service.state.journal import KEPT, Feed
from aliquot.service.state.state import State
from aliquot.service.subscriptions.devices import BEGUN_MAX, DeviceBoard, DeviceChanges
from aliquot.service.subscriptions.events import Record
from aliquot.service.subscriptions.job_output import Outputs as Outputs
from aliquot.service.subscriptions.job_output import decoded, empty_chunk, empty_piece, piece_of
from aliquot.service.subscriptions.sessions import Find, SessionEventBuffers, SessionUpdates
from aliquot.service.views.sessions import session_view
from aliquot.service.views.terms import moment
from aliquot_schema.errors import InvalidRequest, NotFound
from aliquot_schema.events import Event
from aliquot_schema.ids import LeaseId, SessionId, kernel_id
from aliquot_schema.requests import Caller
from aliquot_schema.resources.leases import EndEvidence, Kernel
from aliquot_schema.sessions import Session
from aliquot_schema.states import KernelState
from aliquot_schema.views.audit import ChangeView
from aliquot_schema.views.live import DeviceUpdateView, LogChunkView, SessionLogView, SessionUpdateView, StreamPosition
from aliquot_schema.views.sessions import QueueUpdateView

SNAPSHOT_S: Final = 1.0
"""Interval of session snapshots: queue position and expected start change without an event."""

WITHOUT_DEVICES: Final = frozenset({"session.queued", "session.held"})
"""Kinds of events after which a session holds no devices; they are the most frequent."""


class SubscriptionSources(Struct, frozen=True, kw_only=True):
    """Data sources of subscriptions."""

    find: Find
    """See `SessionUpdates`."""
    book: AuditStore | None
    """See `Record`."""
    recalled: Callable[[SessionId], AbstractAsyncContextManager[None]]
    """Keeps a session in memory, also one that left it."""
    now_us: Callable[[], int]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class NumberedSubscriptions:
    """Subscriptions with numbered updates: one session, all devices, the event log."""

    def __init__(self, *, state: State, feed: Feed, sources: SubscriptionSources) -> None:
        self._log = feed
        self._board = DeviceBoard(state, begun=secrets.randbelow(BEGUN_MAX))
        self._devices = DeviceChanges(self._board, sleep=sources.sleep)
        self._trails = SessionEventBuffers(feed)
        self._moves = SessionUpdates(state=state, trails=self._trails, find=sources.find, now_us=sources.now_us)
        self._record = Record(people=state.people, feed=feed, book=sources.book)

    def on_event(self, event: Event) -> None:
        """Handle an event that the state contains."""
        if self._trails.followed:
            self._trails.on_event(event)
        if event.kind not in WITHOUT_DEVICES:
            self._board.on_event(event)

    def place(self, stream: str, after: int | None) -> StreamPosition:
        """Where a follower starts that already knows number `after` of a stream.

        Raises:
            InvalidRequest: the number is above the last event.
        """
        if stream == "device_updates":
            return self._devices.place(after)
        if stream == "session_updates":
            known = None if after is None else self.begun(after)
            return StreamPosition(known=known, newest=self._log.revision, snapshot_s=SNAPSHOT_S)
        return StreamPosition(known=self.begun(after), newest=self._log.revision)

    def begun(self, after: int | None) -> int:
        """The event number after which to begin: the newest, unless `after` is given.

        Raises:
            InvalidRequest: the number is above the last event.
        """
        newest = self._log.revision
        start = newest if after is None else after
        if not 0 <= start <= newest:
            raise InvalidRequest(f"after: {start} is not between 0 and {newest}", field="after")
        return start

    def session_updates(self, caller: Caller, session_id: str, after: int | None) -> AsyncIterator[SessionUpdateView]:
        """See `SessionUpdates.follow`. Raises InvalidRequest, NotFound."""
        return self._moves.follow(caller, session_id, None if after is None else self.begun(after))

    def device_updates(self, caller: Caller, after: int | None) -> AsyncIterator[DeviceUpdateView]:
        """See `DeviceChanges.follow`."""
        return self._devices.follow(after)

    def events(self, caller: Caller, kinds: Sequence[str], after: int | None) -> AsyncIterator[ChangeView]:
        """See `Record.follow`. Raises Forbidden, InvalidRequest, Unavailable."""
        return self._record.follow(caller, self.begun(after), kinds)


NEVER_STARTED: Final = frozenset({EndEvidence.NEVER_SENT, EndEvidence.TOMBSTONE, EndEvidence.REFUSED})


class Subscriptions(NumberedSubscriptions):
    """All subscriptions; each follower keeps only its own position."""

    def __init__(self, *, state: State, feed: Feed, outputs: Outputs, sources: SubscriptionSources) -> None:
        super().__init__(state=state, feed=feed, sources=sources)
        self._state = state
        self._feed = feed
        self._outputs = outputs
        self._recalled = sources.recalled
        self._pending: OrderedDict[int, int] = OrderedDict()
        """Number of pending sessions right after each of the newest session events."""

    def on_event(self, event: Event) -> None:
        """Handle an event that the state contains."""
        super().on_event(event)
        if isinstance(event.record, Session):
            self._pending[event.number] = len(self._state.pending)
            if len(self._pending) > KEPT:
                self._pending.popitem(last=False)

    async def queue_updates(self, caller: Caller, after: int | None) -> AsyncIterator[QueueUpdateView]:
        """Every committed change of a session, in order.

        Raises:
            InvalidRequest: the number is above the last event.
        """
        async for event in self._feed.follow(self.begun(after)):
            if isinstance(event.record, Session):
                yield self._update(caller, event, event.record)

    async def session_logs(
        self, caller: Caller, session_id: str, *, rank: int, attempt: int | None, offset: int
    ) -> AsyncIterator[LogChunkView]:
        """Follow the output of one rank to its end; waits for a pending session to start.

        Raises:
            NotFound: no such session, rank or attempt.
            Forbidden: the caller is neither the owner nor an admin.
            InvalidRequest: negative offset.
        """
        if offset < 0:
            raise InvalidRequest(f"offset: {offset} is negative; it counts bytes from 0", field="offset")
        async with self._recalled(SessionId(session_id)):
            session = self._session(SessionId(session_id), rank=rank, attempt=attempt)
            check_may_read_output(caller, session)
            kernel = await self._begun_kernel(session.id, rank=rank, attempt=attempt)
        if kernel is None:
            yield empty_chunk(session_id, rank=rank, attempt=attempt or 0, offset=offset)
            return
        chunks = self._outputs.follow_log(kernel.agent_id, kernel.id, offset=offset)
        async for view in decoded(kernel, chunks, offset=offset):
            yield view

    async def session_log(
        self, caller: Caller, session_id: str, *, rank: int, attempt: int | None, offset: int, bytes_max: int
    ) -> SessionLogView:
        """Read a piece of the output of one rank without waiting; of the newest started attempt unless given.

        Raises:
            NotFound, Forbidden: as for `session_logs`.
            Unavailable: the agent is unreachable.
        """
        async with self._recalled(SessionId(session_id)):
            session = self._session(SessionId(session_id), rank=rank, attempt=attempt)
            check_may_read_output(caller, session)
            number = session.attempt if attempt is None else attempt
            kernel, is_over = self._begun(session, rank=rank, attempt=number or None)
        if kernel is None:
            return empty_piece(session, rank=rank, attempt=number, offset=max(0, offset), is_over=is_over)
        return await piece_of(self._outputs, kernel, offset=offset, bytes_max=bytes_max, is_over=is_over)

    def _update(self, caller: Caller, event: Event, session: Session) -> QueueUpdateView:
        return QueueUpdateView(
            event_number=event.number,
            at=moment(event.at_us),
            kind=event.kind,
            session=session_seen(caller, session_view(self._state, session)),
            pending=self._pending.get(event.number, len(self._state.pending)),
        )

    async def _begun_kernel(self, session_id: SessionId, *, rank: int, attempt: int | None) -> Kernel | None:
        """Wait until the rank has started or ended; None when it never started and never will."""
        while True:
            seen = self._state.revision
            session = self._session(session_id, rank=rank, attempt=attempt)
            kernel, is_over = self._begun(session, rank=rank, attempt=attempt)
            if kernel is not None or is_over:
                return kernel
            await self._feed.reached(seen + 1)

    def _begun(self, session: Session, *, rank: int, attempt: int | None) -> tuple[Kernel | None, bool]:
        """(the kernel if it has started, whether no more output will follow)."""
        if self._is_left_out(session, rank=rank, attempt=attempt):
            return None, True
        kernel = self._kernel(session, rank=rank, attempt=attempt)
        if kernel is None:
            return None, session.is_ended
        if kernel.state is KernelState.EXITED:
            return None if self._never_started(kernel) else kernel, True
        return None if kernel.started_us is None else kernel, False

    def _session(self, session_id: SessionId, *, rank: int, attempt: int | None) -> Session:
        session = self._state.sessions.get(session_id)
        if session is None:
            raise NotFound(f"there is no session {session_id[:80]}", kind="session", id=session_id[:80])
        if not 0 <= rank < session.spec.cluster_size:
            raise NotFound(
                f"{session_id} has no rank {rank}; its ranks are 0 to {session.spec.cluster_size - 1}",
                kind="rank",
                id=str(rank),
            )
        if attempt is not None and not 1 <= attempt <= session.attempt + (not session.is_ended):
            raise NotFound(
                f"{session_id} has no attempt {attempt}; it has {session.attempt} so far",
                kind="attempt",
                id=str(attempt),
            )
        return session

    def _kernel(self, session: Session, *, rank: int, attempt: int | None) -> Kernel | None:
        """The kernel of the given or newest attempt; None for a pending session, whose next attempt has not begun."""
        if attempt is None and session.is_pending:
            return None
        found = self._state.kernels.get(kernel_id(session.id, attempt=attempt or session.attempt, rank=rank))
        if found is None and attempt is not None and attempt < session.attempt:
            raise NotFound(
                f"the output of attempt {attempt} of {session.id} is no longer kept", kind="attempt", id=str(attempt)
            )
        return found

    def _is_left_out(self, session: Session, *, rank: int, attempt: int | None) -> bool:
        """Whether an elastic session began an attempt without this rank."""
        if attempt is None and session.is_pending:
            return False
        of_attempt = partial(kernel_id, session.id, attempt=attempt or session.attempt)
        return of_attempt(rank=0) in self._state.kernels and of_attempt(rank=rank) not in self._state.kernels

    def _never_started(self, kernel: Kernel) -> bool:
        lease = self._state.leases.get(LeaseId(kernel.id))
        return lease is not None and lease.evidence in NEVER_STARTED
