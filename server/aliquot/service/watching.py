"""Watching: what happens to the queue, and what sessions print, as it happens."""

from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Final

from aliquot.service.feed import KEPT, Feed
from aliquot.service.live.watching import LiveSources, LiveWatching
from aliquot.service.printed.decoding import decoded, nothing
from aliquot.service.printed.pieces import nothing_of, piece_of
from aliquot.service.printed.ports import Outputs as Outputs
from aliquot.service.projection import session_view
from aliquot.service.projection_terms import moment
from aliquot.service.state import State
from aliquot.service.visibility import check_may_read_output, session_seen
from aliquot_schema.errors import InvalidRequest, NotFound
from aliquot_schema.events import Event
from aliquot_schema.ids import LeaseId, SessionId, kernel_id
from aliquot_schema.leases import EndEvidence, Kernel
from aliquot_schema.log_views import SessionLogView
from aliquot_schema.requests import Caller
from aliquot_schema.sessions import Session
from aliquot_schema.states import KernelState
from aliquot_schema.views import LogChunkView, QueueUpdateView

NEVER_STARTED: Final = frozenset({EndEvidence.NEVER_SENT, EndEvidence.TOMBSTONE, EndEvidence.REFUSED})


class Watching(LiveWatching):
    """Followers; each holds only its own position."""

    def __init__(self, *, state: State, feed: Feed, outputs: Outputs, sources: LiveSources) -> None:
        super().__init__(state=state, feed=feed, sources=sources)
        self._state = state
        self._feed = feed
        self._outputs = outputs
        self._pending: OrderedDict[int, int] = OrderedDict()
        """How many waited right after each of the newest events of sessions."""

    def hear(self, event: Event) -> None:
        """Take in what happened, once it is in the state."""
        super().hear(event)
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
        """The output of one rank, followed until its end; a session that waits is waited for.

        Raises:
            NotFound: no such session, rank or attempt.
            Forbidden: it is neither the caller's nor is he an admin.
        """
        if offset < 0:
            raise InvalidRequest("offset: it counts bytes from 0", field="offset")
        session = self._session(SessionId(session_id), rank=rank, attempt=attempt)
        check_may_read_output(caller, session)
        kernel = await self._begun_kernel(session.id, rank=rank, attempt=attempt)
        if kernel is None:
            yield nothing(session_id, rank=rank, attempt=attempt or 0, offset=offset)
            return
        chunks = self._outputs.follow_log(kernel.agent_id, kernel.id, offset=offset)
        async for view in decoded(kernel, chunks, offset=offset):
            yield view

    async def session_log(
        self, caller: Caller, session_id: str, *, rank: int, attempt: int | None, offset: int, bytes_max: int
    ) -> SessionLogView:
        """A piece of what one rank has printed, in the newest attempt that was begun or a given one; without waiting.

        Raises:
            NotFound, Forbidden: as of `session_logs`. Unavailable: its agent cannot be asked.
        """
        session = self._session(SessionId(session_id), rank=rank, attempt=attempt)
        check_may_read_output(caller, session)
        number = session.attempt if attempt is None else attempt
        kernel, is_over = self._begun(session, rank=rank, attempt=number or None)
        if kernel is None:
            return nothing_of(session, rank=rank, attempt=number, offset=max(0, offset), is_over=is_over)
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
        """Wait until the rank was started, or ended; None when it never was started, and never will be."""
        while True:
            seen = self._state.revision
            session = self._session(session_id, rank=rank, attempt=attempt)
            kernel, is_over = self._begun(session, rank=rank, attempt=attempt)
            if kernel is not None or is_over:
                return kernel
            await self._feed.reached(seen + 1)

    def _begun(self, session: Session, *, rank: int, attempt: int | None) -> tuple[Kernel | None, bool]:
        """(the kernel, once it was started; whether nothing will be printed any more)."""
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
            raise NotFound(f"{session_id} has ranks 0 to {session.spec.cluster_size - 1}", kind="rank", id=str(rank))
        if attempt is not None and not 1 <= attempt <= session.attempt + (not session.is_ended):
            raise NotFound(f"{session_id} has {session.attempt} attempts", kind="attempt", id=str(attempt))
        return session

    def _kernel(self, session: Session, *, rank: int, attempt: int | None) -> Kernel | None:
        """Of the attempt that is named, else of the newest one, which for a pending session is still to come."""
        if attempt is None and session.is_pending:
            return None
        found = self._state.kernels.get(kernel_id(session.id, attempt=attempt or session.attempt, rank=rank))
        if found is None and attempt is not None and attempt < session.attempt:
            raise NotFound(f"attempt {attempt} of {session.id} is no longer kept", kind="attempt", id=str(attempt))
        return found

    def _never_started(self, kernel: Kernel) -> bool:
        lease = self._state.leases.get(LeaseId(kernel.id))
        return lease is not None and lease.evidence in NEVER_STARTED
