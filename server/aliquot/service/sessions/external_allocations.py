"""External allocations: devices for work that users start themselves, placed immediately or rejected.

An allocation is identified by its owner and `job_id`. It ends when it is released, or when its lease expires without
being renewed; calling `allocate` again renews it. Internally it is a session without kernels.
"""

import asyncio
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Final

from msgspec.structs import replace

from aliquot.core.transitions import cancel
from aliquot.core.validation.fields import check_limit, label, milliseconds
from aliquot.core.validation.session import accelerator_kinds, gb_of, slots_of, with_full_names
from aliquot.service.access import check_may_change, check_may_submit
from aliquot.service.accounts.key_budgets import check_shared, refuse_allocation
from aliquot.service.accounts.rate_limit import SubmissionRateLimit
from aliquot.service.lifecycle.external_leases import end
from aliquot.service.ports import Clock, SessionQuery, Store
from aliquot.service.sessions.preview import Previews
from aliquot.service.sessions.submission import Submission
from aliquot.service.state.journal import Feed, Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot.service.views.gpus import gpu_places, gpu_sums
from aliquot.service.views.sessions import reserve_until
from aliquot.service.views.terms import moment, of_leases
from aliquot_schema.errors import (
    AliquotError,
    IdempotencyMismatch,
    ImpossibleRequest,
    InvalidAmount,
    InvalidRequest,
    NotFound,
    NotPlaced,
    Unavailable,
)
from aliquot_schema.ids import RequestId, SessionId
from aliquot_schema.reasons import Reason
from aliquot_schema.requests import Caller, NewSession, SessionFilter
from aliquot_schema.resources.leases import EndEvidence, Lease
from aliquot_schema.resources.slots import ResourceSlot, Unlimited, scale_of
from aliquot_schema.resources.units import format_duration
from aliquot_schema.sessions import DEFAULT_POOL, DURATION_S_MAX, Session
from aliquot_schema.states import ENDED, SessionState
from aliquot_schema.views.preview import LEASE_S, BlockerView, ExternalAllocationView, NewExternalAllocation

LEASE_S_MAX: Final = 7 * 86_400
JOB_ID_CHARS_MAX: Final = 128
COMMAND: Final = "gpu-allocate"
PASS_WAIT_S: Final = 10.0
"""Wait for the scheduling pass. While a server leads, passes are more frequent than this; a request that was not
withdrawn in time is rejected by its age, see `plan_applier.WAITED_US_MAX`."""
STEPS_MAX: Final = 100
"""Ended sessions of one `job_id` that are read to find the newest."""
ACTOR: Final = "system:external-allocations"
DEFAULT_KIND: Final = "cuda"
"""Kind of the GPUs of `gpu_count` in a cluster with several kinds, or none."""


def gpu_slots(state: State, count: str) -> tuple[tuple[str, str], ...]:
    """Slots for a number of GPUs: devices for a whole number, shares for a fraction, one CPU for 0.

    In a cluster with several kinds of accelerators, `cuda` is used.

    Raises:
        InvalidAmount: `count` is not a number, or is negative.
    """
    try:
        amount = Decimal(count)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount < 0:
        raise InvalidAmount(f"gpu_count: {count[:32]} is not a number of GPUs", slot="gpu_count", amount=count[:32])
    if amount == 0:
        return (("cpu", "1"),)
    known = state.slots_in_use()
    kinds = accelerator_kinds(known)
    short = DEFAULT_KIND if DEFAULT_KIND in kinds else kinds[0] if kinds else None
    text = str(int(amount)) if amount == amount.to_integral_value() else str(amount)
    if short is None:
        return ((f"{DEFAULT_KIND}.{'shares' if '.' in text else 'device'}", text),)
    return with_full_names(((short, text),), known=known, field="gpu_count")


def lease_ms_of(asked: NewExternalAllocation) -> int:
    """Lease of an allocation, at most `LEASE_S_MAX`; it expires then unless it is renewed.

    Raises:
        InvalidRequest: the lease is too long, or not a duration.
    """
    lease_ms = milliseconds(LEASE_S if asked.lease is None else asked.lease, field="lease", most_s=LEASE_S_MAX)
    assert lease_ms is not None
    return lease_ms


def request_of(state: State, asked: NewExternalAllocation) -> NewSession:
    """The request as a new session.

    Raises:
        InvalidRequest: a field is invalid; also its subclasses.
    """
    job_id = label(asked.job_id, field="job_id")
    if not job_id:
        raise InvalidRequest("job_id: it is empty; give the job a name", field="job_id")
    check_limit(len(job_id), field="job_id", most=JOB_ID_CHARS_MAX, unit="characters")
    return NewSession(
        argv=(COMMAND, job_id),
        shell=None,
        slots=gpu_slots(state, asked.gpu_count),
        gpu_memory_gb=asked.memory_gb,
        name=job_id,
        run_id=job_id,
        project=asked.project,
        pool=asked.pool,
        external_lease=lease_ms_of(asked) / 1000,
        time_limit=asked.time_limit,
    )


def spread(request: NewSession) -> NewSession | None:
    """The request as one kernel per GPU, which may be on several agents; None for shares, or a single GPU."""
    ((slot, amount),) = request.slots
    if not slot.endswith(".device") or int(amount) == 1:
        return None
    return replace(request, slots=((slot, "1"),), cluster_size=int(amount))


def check_same(held: Session, request: NewSession) -> None:
    """Refuse a job that requests another amount than it holds. Only amounts are compared: the kinds of devices and
    the sizes of agents may have changed meanwhile.

    Raises:
        IdempotencyMismatch: the amounts differ.
        InvalidRequest: the request is invalid.
    """
    memory = None if request.gpu_memory_gb is None else gb_of(request.gpu_memory_gb)
    held_gpus = held.spec.cluster_size * _gpus(held.spec.slots)
    if (_gpus(slots_of(request.slots)), memory) != (held_gpus, held.spec.gpu_memory_bytes):
        raise IdempotencyMismatch(
            f"job_id: {held.run_id} holds another amount than this request; release it first, or choose another job_id",
            key=held.run_id or "",
            session_id=held.id,
        )


def _gpus(slots: ResourceSlot) -> Fraction:
    """Number of GPUs, shares included; `cpu` is the slot of 0 GPUs, see `gpu_slots`."""
    wanted = ((slot, amount) for slot, amount in slots.items() if slot != "cpu" and not isinstance(amount, Unlimited))
    return sum((Fraction(amount, scale_of(slot)) for slot, amount in wanted), start=Fraction())


def _key(request: NewSession, last: str) -> str:
    """Idempotency key of the session that follows the job's `last` one."""
    return f"{COMMAND}/{request.run_id}/{last}"


def _not_held(job_id: str) -> NotFound:
    return NotFound(
        f"you hold no allocation named {job_id[:JOB_ID_CHARS_MAX]}", kind="job", id=job_id[:JOB_ID_CHARS_MAX]
    )


class ExternalAllocations:
    """Use cases of external allocations. Every method returns after the commit."""

    def __init__(
        self,
        *,
        state: State,
        journal: Journal,
        store: Store,
        feed: Feed,
        creation: Submission,
        previews: Previews,
        clock: Clock,
        rate_limit: SubmissionRateLimit | None = None,
    ) -> None:
        """
        Args:
            rate_limit: of new allocations; renewals are not limited. None = no limit.
        """
        self._state = state
        self._journal = journal
        self._store = store
        self._feed = feed
        self._creation = creation
        self._previews = previews
        self._clock = clock
        self._rate_limit = rate_limit

    async def allocate(self, caller: Caller, asked: NewExternalAllocation) -> ExternalAllocationView:
        """Allocate GPUs to a job, or renew the lease of what it holds.

        A renewal comes first, so a full queue, a lowered quota or the rate limit never end a running job.

        Raises:
            NotPlaced: nothing is free for it now; the holders are those of a moment before or after.
            IdempotencyMismatch: the job holds another amount than it requests.
            InvalidRequest, UnknownSlot, ImpossibleRequest, QuotaExceeded, QueueFull, RateLimited, Forbidden: the
            request is refused.
            Unavailable: no server is leading. After any error nothing is stored.
        """
        check_may_submit(caller)
        request = request_of(self._state, asked)
        held = await self._held(caller, asked.job_id)
        if held is not None:
            check_same(held, request)
            check_shared(self._state, caller, held)
            renewed = await self._renew(caller, held, lease_ms=lease_ms_of(asked))
            if renewed:
                return self._view(held, renewed, was_held=True)
        return await self._place(caller, request)

    async def release(self, caller: Caller, job_id: str) -> ExternalAllocationView:
        """Release what a job holds.

        Raises:
            NotFound: the caller has no allocation of this name.
            Forbidden: the caller may only read.
        """
        check_may_submit(caller)
        held = await self._held(caller, job_id)
        if held is None:
            raise _not_held(job_id)
        before = self._view(held, self._state.external_allocations.of(held.id), was_held=True)

        def change(draft: UnitOfWork) -> bool:
            session = draft.session(held.id)
            if session is None or session.state is not SessionState.RUNNING:
                return False
            check_may_change(caller, session)
            end(draft, session, EndEvidence.GIVEN_BACK, now_us=self._clock.now_us())
            return True

        if not await self._journal.transact(change, actor=caller.actor, request_id=RequestId(caller.request_id)):
            raise _not_held(job_id)
        return replace(before, renewed=False, expires_at=None, revision=self._state.revision)

    def gpu_slots(self, count: str) -> tuple[tuple[str, str], ...]:
        """See `gpu_slots`."""
        return gpu_slots(self._state, count)

    async def _place(self, caller: Caller, request: NewSession) -> ExternalAllocationView:
        last = await self._newest_ended(caller, request.run_id or "")
        session = self._state.by_key(caller.user, _key(request, last))
        if session is None or session.is_ended:
            session_id, is_new = await self._create(caller, await self._startable(caller, request), last=last)
        else:
            # Another call for the same job is being answered. A second session would wait for the first one's GPUs.
            check_same(session, request)
            check_shared(self._state, caller, session)
            session_id, is_new = session.id, False
        session = await self._after_pass(session_id)
        if session.state is SessionState.RUNNING:
            return self._view(session, self._state.external_allocations.of(session.id), was_held=not is_new)
        if session.started_us is not None:
            raise Unavailable(f"{request.run_id} was allocated and released again by another call; try again")
        raise await self._refusal(caller, request)

    async def _startable(self, caller: Caller, request: NewSession) -> NewSession:
        """The request as it would be placed now; raises the errors of `allocate` when it would not be."""
        refuse_allocation(self._state, caller)
        if self._rate_limit is not None:
            self._rate_limit.check_rate(caller, sessions=1)
        request = await self._possible(caller, request)
        if self._state.orchestration.is_stopped:
            raise NotPlaced("the orchestrator is stopped, so nothing new is placed", reason=Reason.STOPPED)
        preview = await self._previews.preview(caller, request)
        if not preview.starts_now:
            raise await self._refusal(caller, request)
        return request

    async def _possible(self, caller: Caller, request: NewSession) -> NewSession:
        """The request on one agent; spread over several when no agent has that many GPUs."""
        try:
            await self._creation.dry_run(caller, request)
        except ImpossibleRequest:
            on_several = spread(request)
            if on_several is None:
                raise
            return on_several
        return request

    async def _held(self, caller: Caller, job_id: str) -> Session | None:
        """The caller's allocation of this name; another server may have committed it a moment ago."""
        held = self._held_here(caller, job_id)
        while held is None and await self._journal.catch_up():
            held = self._held_here(caller, job_id)
        return held

    def _held_here(self, caller: Caller, job_id: str) -> Session | None:
        sessions = (self._state.sessions.get(session_id) for session_id in self._state.external_allocations.sessions())
        mine = (session for session in sessions if session is not None and session.owner == caller.user)
        return next((session for session in mine if session.run_id == job_id), None)

    async def _renew(self, caller: Caller, held: Session, *, lease_ms: int) -> tuple[Lease, ...]:
        """Renew the leases, up to the time limit, and return them; none if they were released or expired meanwhile."""

        def change(draft: UnitOfWork) -> tuple[Lease, ...]:
            limit_ms = held.spec.time_limit_ms
            for lease in draft.external_leases(held.id):
                until_us = self._clock.now_us() + 1000 * lease_ms
                if limit_ms is not None:
                    until_us = min(until_us, lease.granted_us + 1000 * limit_ms)
                if lease.until_us is None or lease.until_us < until_us:
                    draft.put(replace(lease, until_us=until_us), "renewed")
            return tuple(draft.external_leases(held.id))

        return await self._journal.transact(change, actor=caller.actor, request_id=RequestId(caller.request_id))

    async def _create(self, caller: Caller, request: NewSession, *, last: str) -> tuple[SessionId, bool]:
        """A new session for the job, and True; or the one that a concurrent call created, and False. Concurrent calls
        choose the same idempotency key, and so create only one.

        Args:
            last: see `_newest_ended`.
        Raises:
            Unavailable: other calls created and ended `STEPS_MAX` sessions of this name meanwhile.
        """
        for _ in range(STEPS_MAX):
            try:
                session, is_new = await self._creation.create(
                    caller, replace(request, idempotency_key=_key(request, last))
                )
            except IdempotencyMismatch as error:
                known = self._state.sessions.get(SessionId(error.session_id))
                if known is not None and not known.is_ended:
                    raise
                last = error.session_id
                continue
            if not session.is_ended:
                return session.id, is_new
            last = session.id
        raise Unavailable(f"{request.run_id} is being allocated and released by other calls; try again")

    async def _newest_ended(self, caller: Caller, job_id: str) -> str:
        """Id of the newest ended session of a job, part of the next idempotency key; `0` if there is none."""
        ended = SessionFilter(owners=(caller.user,), run_id=job_id, states=tuple(ENDED))
        query = SessionQuery(where=ended, limit=STEPS_MAX)
        return next(
            (session.id for session in await self._store.sessions(query) if session.is_external_allocation), "0"
        )

    async def _after_pass(self, session_id: SessionId) -> Session:
        """The session after the pass that placed or rejected it.

        Raises:
            Unavailable: no pass within `PASS_WAIT_S`.
        """
        try:
            async with asyncio.timeout(PASS_WAIT_S):
                while self._state.sessions[session_id].is_pending:
                    await self._feed.reached(self._state.revision + 1)
        except TimeoutError:
            await self._journal.transact(lambda draft: self._withdraw(draft, session_id), actor=ACTOR)
            if self._state.sessions[session_id].state is not SessionState.RUNNING:
                raise Unavailable(
                    "no server is leading right now, so nothing can be allocated; try again in a few seconds"
                ) from None
        return self._state.sessions[session_id]

    def _withdraw(self, draft: UnitOfWork, session_id: SessionId) -> None:
        session = draft.session(session_id)
        if session is not None and session.is_pending:
            draft.put(cancel(session, now_us=self._clock.now_us()), "canceled")

    async def _refusal(self, caller: Caller, request: NewSession) -> AliquotError:
        """Why nothing could be allocated: the verdict on a session with the same request that may wait."""
        waiting = replace(request, external_lease=None, time_limit=request.time_limit or DURATION_S_MAX)
        preview = await self._previews.preview(caller, waiting, with_vetting=False)
        if preview.waits is None or preview.waits.reason is Reason.RESERVED:
            ahead = () if preview.waits is None else preview.waits.blocked_by
            return self._reserved(request, next(iter(ahead or self._state.promised_us), None))
        return NotPlaced(
            preview.waits.message,
            reason=preview.waits.reason,
            holders=tuple(filter(None, (self._blocker(SessionId(name)) for name in preview.waits.blocked_by))),
            until=preview.expected_start or preview.waits.until,
        )

    def _reserved(self, request: NewSession, next_id: str | None) -> NotPlaced:
        """The refusal of a request that fits now, but would delay the session that is next in the queue."""
        pool = request.pool or DEFAULT_POOL
        agents = [agent for agent in self._state.agents.values() if agent.pool == pool]
        free = gpu_sums(self._state, gpu_places(self._state, agents)).available
        holder = None if next_id is None else self._blocker(SessionId(next_id))
        at_us = None if next_id is None else self._state.promised_us.get(SessionId(next_id))
        who = "a session that waits" if holder is None else f"{holder.session_id} of {holder.user}"
        start = f" and starts by {moment(at_us):%Y-%m-%d %H:%M:%S} UTC" if at_us is not None else ""
        if request.time_limit is None:
            advice = "this allocation has no time limit and could delay it. Give it a time limit that ends before that"
        else:
            limit = format_duration(request.time_limit)
            advice = f"an allocation of {limit} would delay it. Give it a shorter time limit"
        return NotPlaced(
            f"{free:g} {'GPU is' if free == 1 else 'GPUs are'} free, but {who} is next{start}; {advice}, or try again "
            "later.",
            reason=Reason.RESERVED,
            holders=() if holder is None else (holder,),
            until=None if at_us is None else moment(at_us),
        )

    def _blocker(self, session_id: SessionId) -> BlockerView | None:
        session = self._state.sessions.get(session_id)
        if session is None:
            return None
        until = reserve_until(self._state, session)
        return BlockerView(session_id=session.id, user=session.owner, name=session.name, until=until)

    def _view(self, session: Session, leases: Sequence[Lease], *, was_held: bool) -> ExternalAllocationView:
        gpus = of_leases(self._state, leases)
        ends = [lease.until_us for lease in leases if lease.until_us is not None]
        return ExternalAllocationView(
            job_id=session.run_id or "",
            session_id=session.id,
            gpu_ids=tuple(gpu.gpu_id for gpu in gpus),
            gpus=gpus,
            expires_at=moment(min(ends)) if ends else None,
            renewed=was_held,
            revision=self._state.revision,
        )
