"""Work that is run outside: devices at once or not at all, held until they are given back or nobody calls again."""

import asyncio
from dataclasses import replace
from typing import Final

from aliquot.core.transitions import cancel
from aliquot.service.accounts.gate import Gate
from aliquot.service.allocated_gpus import of_leases
from aliquot.service.creation import Creation
from aliquot.service.draft import Draft
from aliquot.service.feed import Feed
from aliquot.service.gpu_slots import gpu_slots
from aliquot.service.journal import Journal
from aliquot.service.outside_leases import end
from aliquot.service.outside_request import COMMAND, JOB_ID_CHARS_MAX, check_same, lease_ms_of, request_of, spread
from aliquot.service.permissions import check_may_change, check_may_submit
from aliquot.service.ports import Clock, SessionQuery, Store
from aliquot.service.preview import Previews
from aliquot.service.projection import reserve_until
from aliquot.service.projection_terms import moment
from aliquot.service.state import State
from aliquot_schema.errors import (
    AliquotError,
    IdempotencyMismatch,
    ImpossibleRequest,
    NotFound,
    NotPlaced,
    Unavailable,
)
from aliquot_schema.ids import RequestId, SessionId
from aliquot_schema.leases import EndEvidence
from aliquot_schema.outside_views import BlockerView, NewOutside, OutsideView
from aliquot_schema.reasons import Reason
from aliquot_schema.requests import Caller, NewSession
from aliquot_schema.session_lists import SessionFilter
from aliquot_schema.sessions import Session
from aliquot_schema.states import ENDED, SessionState

PASS_WAIT_S: Final = 10.0
"""A pass is made within this time as long as somebody leads. What is taken back too late, or not
at all, is turned away by its age; see `outside_leases.is_left`."""
STEPS_MAX: Final = 100
"""Of sessions of one job name that are looked through for its newest."""
ACTOR: Final = "system:outside"


class Outside:
    """What scripts ask for that start their work themselves. Every method returns after the commit."""

    gate: Gate | None = None
    """Its rate counts what is called for anew; None lets everybody pass."""

    def __init__(
        self,
        *,
        state: State,
        journal: Journal,
        store: Store,
        feed: Feed,
        creation: Creation,
        previews: Previews,
        clock: Clock,
    ) -> None:
        self._state = state
        self._journal = journal
        self._store = store
        self._feed = feed
        self._creation = creation
        self._previews = previews
        self._clock = clock

    async def allocate(self, caller: Caller, asked: NewOutside) -> OutsideView:
        """Give GPUs to a job, or hold on to those that it has for another while.

        What is held is looked for first: neither a full queue nor a lowered quota, nor a rate, takes from a job what
        it runs on.

        Raises:
            NotPlaced: there is nothing for it now; what it says of holders is as of a moment before or after.
            IdempotencyMismatch: the job holds something else than it asks for.
            InvalidRequest, UnknownSlot, ImpossibleRequest, QuotaExceeded, QueueFull, RateLimited, Forbidden: nothing is
            kept.
            Unavailable: nobody leads now; nothing is kept.
        """
        check_may_submit(caller)
        request = request_of(self._state, asked)
        held = await self._held(caller, asked.job_id)
        if held is not None:
            check_same(held, request)
            if await self._renew(caller, held, lease_ms=lease_ms_of(asked)):
                return self._view(held, renewed=True)
        return await self._place(caller, request)

    async def release(self, caller: Caller, job_id: str) -> OutsideView:
        """Give back what a job holds.

        Raises:
            NotFound: it holds nothing of the caller's.
            Forbidden: the caller may only look.
        """
        check_may_submit(caller)
        held = await self._held(caller, job_id)
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

    async def _place(self, caller: Caller, request: NewSession) -> OutsideView:
        if self.gate is not None:
            self.gate.check_rate(caller, sessions=1)
        request = await self._possible(caller, request)
        if self._state.orchestration.is_stopped:
            raise NotPlaced("the orchestrator is stopped, and nothing new is placed", reason=Reason.STOPPED)
        preview = await self._previews.preview(caller, request)
        if not preview.starts_now:
            raise await self._refusal(caller, request)
        session = await self._until_looked_at(await self._create(caller, request))
        if session.state is not SessionState.RUNNING:
            raise await self._refusal(caller, request)
        return self._view(session, renewed=False)

    async def _possible(self, caller: Caller, request: NewSession) -> NewSession:
        """On one agent; whole GPUs of which no agent has so many, on several."""
        try:
            await self._creation.tried(caller, request)
        except ImpossibleRequest:
            on_several = spread(request)
            if on_several is None:
                raise
            return on_several
        return request

    async def _held(self, caller: Caller, job_id: str) -> Session | None:
        """What the caller's job of this name holds; it may have been given it at another server a moment ago."""
        held = self._held_here(caller, job_id)
        while held is None and await self._journal.catch_up():
            held = self._held_here(caller, job_id)
        return held

    def _held_here(self, caller: Caller, job_id: str) -> Session | None:
        sessions = (self._state.sessions.get(session_id) for session_id in self._state.outside.sessions())
        mine = (session for session in sessions if session is not None and session.owner == caller.user)
        return next((session for session in mine if session.run_id == job_id), None)

    async def _renew(self, caller: Caller, held: Session, *, lease_ms: int) -> bool:
        """Hold on to it; False when it was given back or expired just now."""

        def change(draft: Draft) -> bool:
            until_us = self._clock.now_us() + 1000 * lease_ms
            leases = draft.leases_outside(held.id)
            for lease in leases:
                if lease.until_us is None or lease.until_us < until_us:
                    draft.put(replace(lease, until_us=until_us), "renewed")
            return bool(leases)

        return await self._journal.transact(change, actor=caller.user, request_id=RequestId(caller.request_id))

    async def _create(self, caller: Caller, request: NewSession) -> SessionId:
        """A session for the job, whose last one has ended. Two calls at once make one: they choose the same key.

        Raises:
            Unavailable: others make and end such sessions faster than this follows.
        """
        last = await self._newest_ended(caller, request.run_id or "")
        for _ in range(STEPS_MAX):
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
        raise Unavailable(f"{request.run_id} is called for and ended all the time; try again")

    async def _newest_ended(self, caller: Caller, job_id: str) -> str:
        """Where the row of a job's sessions ends, or is soon to end; `0` where it begins."""
        ended = SessionFilter(owners=(caller.user,), run_id=job_id, states=tuple(ENDED))
        query = SessionQuery(where=ended, limit=STEPS_MAX)
        return next((session.id for session in await self._store.sessions(query) if session.is_outside), "0")

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
        shown = await self._previews.preview(caller, replace(request, outside=None), vet=False)
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
