"""Work that is run outside: devices at once or not at all, held until they are given back or nobody calls again."""

import asyncio
from dataclasses import replace
from typing import Final

from aliquot.core.field_checks import check_limit, label, milliseconds
from aliquot.core.transitions import cancel
from aliquot.service.allocated_gpus import of_leases
from aliquot.service.creation import Creation
from aliquot.service.draft import Draft
from aliquot.service.feed import Feed
from aliquot.service.gpu_slots import gpu_slots
from aliquot.service.journal import Journal
from aliquot.service.outside_leases import end
from aliquot.service.permissions import check_may_change
from aliquot.service.ports import Clock
from aliquot.service.preview import Previews
from aliquot.service.projection import reserve_until
from aliquot.service.projection_terms import moment
from aliquot.service.state import State
from aliquot_schema.errors import (
    AliquotError,
    IdempotencyMismatch,
    ImpossibleRequest,
    InvalidRequest,
    NotFound,
    NotPlaced,
    Unavailable,
)
from aliquot_schema.ids import RequestId, SessionId
from aliquot_schema.leases import EndEvidence
from aliquot_schema.outside_views import BlockerView, NewOutside, OutsideView
from aliquot_schema.reasons import Reason
from aliquot_schema.requests import Caller, NewSession
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState

LEASE_S: Final = 3600.0
LEASE_S_MAX: Final = 7 * 86_400
JOB_ID_CHARS_MAX: Final = 128
PASS_WAIT_S: Final = 10.0
"""A pass is made within this time as long as somebody leads."""
COMMAND: Final = "gpu-allocate"
ACTOR: Final = "system:outside"


class Outside:
    """What scripts ask for that start their work themselves. Every method returns after the commit."""

    def __init__(
        self, *, state: State, journal: Journal, feed: Feed, creation: Creation, previews: Previews, clock: Clock
    ) -> None:
        self._state = state
        self._journal = journal
        self._feed = feed
        self._creation = creation
        self._previews = previews
        self._clock = clock

    async def allocate(self, caller: Caller, asked: NewOutside) -> OutsideView:
        """Give GPUs to a job, or hold on to those that it has for another while.

        Raises:
            NotPlaced: there is nothing for it now; what it says of holders is as of a moment before or after.
            IdempotencyMismatch: the job holds something else than it asks for.
            InvalidRequest, UnknownSlot, ImpossibleRequest, QuotaExceeded, QueueFull, Forbidden: nothing is kept.
            Unavailable: nobody leads now; nothing is kept.
        """
        request = await self._possible(caller, self._request(asked))
        held = self._held(caller, asked.job_id)
        if held is not None:
            return await self._renew(caller, held, request)
        if self._state.orchestration.is_stopped:
            raise NotPlaced("the orchestrator is stopped, and nothing new is placed", reason=Reason.STOPPED)
        preview = await self._previews.preview(caller, request)
        if not preview.starts_now:
            raise await self._refusal(caller, request)
        session = await self._until_looked_at(await self._create(caller, request))
        if session.state is not SessionState.RUNNING:
            raise await self._refusal(caller, request)
        return self._view(session, renewed=False)

    async def release(self, caller: Caller, job_id: str) -> OutsideView:
        """Give back what a job holds.

        Raises:
            NotFound: it holds nothing of the caller's.
            Forbidden: the caller may only look.
        """
        held = self._held(caller, job_id)
        if held is None:
            raise NotFound(
                f"{job_id[:JOB_ID_CHARS_MAX]} holds nothing of yours", kind="job", id=job_id[:JOB_ID_CHARS_MAX]
            )
        before = self._view(held, renewed=True)

        def change(draft: Draft) -> None:
            session = draft.session(held.id)
            if session is not None and session.state is SessionState.RUNNING:
                check_may_change(caller, session)
                end(draft, session, EndEvidence.GIVEN_BACK, now_us=self._clock.now_us())

        await self._journal.transact(change, actor=caller.user, request_id=RequestId(caller.request_id))
        return replace(before, expires_at=None, revision=self._state.revision)

    def gpu_slots(self, count: str) -> tuple[tuple[str, str], ...]:
        """See `gpu_slots`."""
        return gpu_slots(self._state, count)

    def _request(self, asked: NewOutside) -> NewSession:
        job_id = label(asked.job_id, field="job_id")
        if not job_id:
            raise InvalidRequest("job_id: it is empty; say what the job is called", field="job_id")
        check_limit(len(job_id), field="job_id", most=JOB_ID_CHARS_MAX, unit="characters")
        lease_s = LEASE_S if asked.lease is None else asked.lease
        milliseconds(lease_s, field="lease", most_s=LEASE_S_MAX)
        return NewSession(
            argv=(COMMAND, job_id),
            shell=None,
            slots=gpu_slots(self._state, asked.gpu_count),
            gpu_memory_gb=asked.memory_gb,
            name=job_id,
            run_id=job_id,
            project=asked.project,
            pool=asked.pool,
            outside=lease_s,
        )

    async def _possible(self, caller: Caller, request: NewSession) -> NewSession:
        """On one agent; whole GPUs of which no agent has so many, on several."""
        ((slot, amount),) = request.slots
        try:
            await self._creation.tried(caller, request)
        except ImpossibleRequest:
            if not slot.endswith(".device") or int(amount) == 1:
                raise
            return replace(request, slots=((slot, "1"),), cluster_size=int(amount))
        return request

    def _held(self, caller: Caller, job_id: str) -> Session | None:
        """What the caller's job of this name holds."""
        sessions = (self._state.sessions.get(session_id) for session_id in self._state.outside.sessions())
        mine = (session for session in sessions if session is not None and session.owner == caller.user)
        return next((session for session in mine if session.run_id == job_id), None)

    async def _renew(self, caller: Caller, held: Session, request: NewSession) -> OutsideView:
        wanted = await self._creation.tried(caller, request)
        if _what(wanted) != _what(held):
            raise IdempotencyMismatch(
                f"job_id: {held.run_id} holds something else than it asks for now; release it first",
                key=held.run_id or "",
                session_id=held.id,
            )

        def change(draft: Draft) -> None:
            until_us = self._clock.now_us() + 1000 * (wanted.spec.outside_ms or 0)
            leases = draft.leases_outside(held.id)
            if not leases:
                raise NotPlaced(f"{held.run_id} expired just now; call again", reason="expired")
            for lease in leases:
                if lease.until_us is None or lease.until_us < until_us:
                    draft.put(replace(lease, until_us=until_us), "renewed")

        await self._journal.transact(change, actor=caller.user, request_id=RequestId(caller.request_id))
        return self._view(held, renewed=True)

    async def _create(self, caller: Caller, request: NewSession) -> SessionId:
        """A session for the job, whose last one has ended. Two calls at once make one: they choose the same key."""
        last = "0"
        while True:
            key = f"{COMMAND}/{request.run_id}/{last}"
            try:
                session, _ = await self._creation.create(caller, replace(request, idempotency_key=key))
            except IdempotencyMismatch as error:
                known = self._state.sessions.get(SessionId(error.session_id))
                if known is not None and not known.is_ended:
                    raise
                last = error.session_id
                continue
            if not session.is_ended:
                return session.id
            last = session.id

    async def _until_looked_at(self, session_id: SessionId) -> Session:
        """The session after the pass that gave it something or turned it away."""
        try:
            async with asyncio.timeout(PASS_WAIT_S):
                while self._state.sessions[session_id].is_pending:
                    await self._feed.reached(self._state.revision + 1)
        except TimeoutError:
            await self._journal.transact(lambda draft: self._take_back(draft, session_id), actor=ACTOR)
            if self._state.sessions[session_id].state is not SessionState.RUNNING:
                raise Unavailable("nobody decides now who gets what; try again") from None
        return self._state.sessions[session_id]

    def _take_back(self, draft: Draft, session_id: SessionId) -> None:
        session = draft.session(session_id)
        if session is not None and session.is_pending:
            draft.put(cancel(session, now_us=self._clock.now_us()), "canceled")

    async def _refusal(self, caller: Caller, request: NewSession) -> AliquotError:
        """Why there is nothing, as a session would be told that can wait."""
        shown = await self._previews.preview(caller, replace(request, outside=None))
        if shown.waits is None:
            return NotPlaced("others wait for what it would take", reason=Reason.RESERVED)
        return NotPlaced(
            shown.waits.message,
            reason=shown.waits.reason,
            holders=tuple(filter(None, (self._blocker(SessionId(name)) for name in shown.waits.blocked_by))),
            until=shown.expected_start or shown.waits.until,
        )

    def _blocker(self, session_id: SessionId) -> BlockerView | None:
        session = self._state.sessions.get(session_id)
        if session is None:
            return None
        until = reserve_until(self._state, session)
        return BlockerView(session_id=session.id, user=session.owner, name=session.name, until=until)

    def _view(self, session: Session, *, renewed: bool) -> OutsideView:
        leases = self._state.outside.of(session.id)
        gpus = of_leases(self._state, leases)
        ends = [lease.until_us for lease in leases if lease.until_us is not None]
        return OutsideView(
            job_id=session.run_id or "",
            session_id=session.id,
            gpu_ids=tuple(gpu.gpu_id for gpu in gpus),
            gpus=gpus,
            expires_at=moment(min(ends)) if ends else None,
            renewed=renewed,
            revision=self._state.revision,
        )


def _what(session: Session) -> tuple[object, ...]:
    """What it asks for."""
    return session.spec.slots, session.spec.cluster_size, session.spec.gpu_memory_bytes
