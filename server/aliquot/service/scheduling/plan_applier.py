"""Plan applier: commits a plan in short transactions; each re-checks its part against the newest state, and writes the
leases and kernels of what is still valid."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from aliquot.core import transitions
from aliquot.core.model.plan import BookingDecision, Eviction, ExtensionDecision, Placement, Plan, still_fits
from aliquot.core.model.snapshot import PendingRow, asks_the_same, startable
from aliquot.core.scheduler.bookings import with_decision
from aliquot.core.scheduler.decide import NOT_PLACED
from aliquot.core.scheduler.eligibility import DEPENDENCY, broken_dependency
from aliquot.service.lifecycle.idle_sessions import act, still_due
from aliquot.service.lifecycle.launch_orders import Orders, start
from aliquot.service.lifecycle.preemption import evict
from aliquot.service.state.journal import Journal
from aliquot.service.state.snapshots import dependency_states, is_open
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.bookings import Booking
from aliquot_schema.ids import LEASE_PREFIX, SESSION_PREFIX, AgentId, KernelId, LeaseId, SessionId, kernel_id, task_id
from aliquot_schema.resources.leases import Kernel, Lease, LeaseKind
from aliquot_schema.sessions import Failure, PreemptionCause, Session
from aliquot_schema.states import SessionState

T = TypeVar("T")

ACTOR: Final = "system:allocator"
KERNELS_MAX: Final = 25
"""Kernels placed in one transaction, unless one session has more; bounds how long the event loop is blocked."""
CHANGES_MAX: Final = 300
"""Failures recorded in one transaction."""
WAITED_US_MAX: Final = 30_000_000
"""A caller waits a few seconds for an external allocation; a request older than this is abandoned."""


class PlanApplier(Struct, frozen=True, kw_only=True):
    """Applies one plan of one pass."""

    state: State
    journal: Journal
    now_us: int
    pass_number: int
    launch: Callable[[Orders], None]
    """Sends launch orders; called after their commit."""
    rows: Mapping[SessionId, PendingRow] = field(default_factory=dict)
    """Job arrays whose tasks start, and sessions that fail or fall back, as the pass saw them."""

    async def run(self, plan: Plan) -> tuple[tuple[SessionId, ...], int]:
        """Commit the steps that are still valid; returns the sessions placed, and the number of outdated placements."""
        abandoned = {placement.session_id for placement in plan.placements if self._is_abandoned(placement)}
        failures = [*plan.failures.items(), *((name, NOT_PLACED) for name in sorted(abandoned))]
        for first in range(0, len(failures), CHANGES_MAX):
            await self._write(partial(self._fail, failures=failures[first : first + CHANGES_MAX]))
        if plan.bookings:
            await self._write(partial(self._settle_bookings, decisions=plan.bookings))
        if plan.extensions:
            await self._write(partial(self._settle_extensions, decisions=plan.extensions))
        placed: list[SessionId] = []
        for part in slices([placement for placement in plan.placements if placement.session_id not in abandoned]):
            placed += await self._place(part)
        if plan.fallbacks:
            await self._write(partial(self._fall_back, fallbacks=plan.fallbacks))
        if plan.evictions:
            await self._write(partial(self._evict, evictions=plan.evictions))
        return tuple(placed), len(plan.placements) - len(placed)

    def _is_abandoned(self, placement: Placement) -> bool:
        """Whether it is an external allocation that was requested too long ago, which would hold devices unused."""
        session = self.state.sessions.get(placement.session_id)
        if session is None or not session.is_external_allocation:
            return False
        return self.now_us - session.queued_us > WAITED_US_MAX

    async def _place(self, part: Sequence[Placement]) -> tuple[SessionId, ...]:
        grants = PlacementWriter(state=self.state, epoch=self.journal.epoch, now_us=self.now_us, arrays=self.rows)

        def grant(draft: UnitOfWork) -> tuple[tuple[SessionId, ...], Orders]:
            # If scheduling was paused since the pass began, or between two of its steps, the rest of the plan waits.
            granted = grants.write(draft, () if draft.orchestration().is_stopped else part)
            return granted, start(draft, granted, epoch=self.journal.epoch)

        granted, orders = await self._write(grant)
        self.launch(orders)
        return granted

    async def _write(self, change: Callable[[UnitOfWork], T]) -> T:
        return await self.journal.persist(change, actor=ACTOR, pass_number=self.pass_number)

    def _settle_bookings(self, draft: UnitOfWork, *, decisions: Sequence[BookingDecision]) -> None:
        for decision in () if draft.orchestration().is_stopped else decisions:
            booking = draft.find(Booking, decision.booking_id)
            if booking is None or booking.version != decision.version or not booking.is_open:
                continue
            decided = with_decision(booking, decision)
            if decided.is_open:
                draft.put(decided, "booked")
            else:
                draft.end_booking(decided, now_us=self.now_us)

    def _settle_extensions(self, draft: UnitOfWork, *, decisions: Sequence[ExtensionDecision]) -> None:
        for decision in () if draft.orchestration().is_stopped else decisions:
            session = draft.session(decision.session_id)
            asked = None if session is None else session.extension
            if session is None or asked is None or not asked.is_open or session.started_us is None:
                continue
            limit_us = session.started_us + 1000 * asked.time_limit_ms
            if asked.attempt != session.attempt or limit_us != decision.limit_us:
                continue  # another time was asked for since the pass began, or for an earlier attempt
            settled_one = replace(session, extension=replace(asked, is_open=False, refusal=decision.refusal))
            if decision.refusal is not None or session.state is not SessionState.RUNNING:
                draft.put(settled_one, "extension_refused")
                continue
            spec = replace(session.spec, time_limit_ms=asked.time_limit_ms)
            draft.put(replace(settled_one, spec=spec), "extended")

    def _fail(self, draft: UnitOfWork, *, failures: Sequence[tuple[SessionId, Failure]]) -> None:
        states = dependency_states(self.state)
        for session_id, failure in failures:
            session = self._as_seen(draft, session_id)
            if session is None:
                continue
            if failure.code == DEPENDENCY and broken_dependency(session.spec.depends_on, states) is None:
                continue  # it was retried meanwhile
            draft.put(transitions.fail(session, failure, now_us=self.now_us), "failed")

    def _fall_back(self, draft: UnitOfWork, *, fallbacks: Mapping[SessionId, int]) -> None:
        for session_id, level in fallbacks.items():
            session = self._as_seen(draft, session_id)
            if session is not None and session.fallback_level < level <= len(session.spec.fallbacks):
                draft.put(replace(session, fallback_level=level), "fell_back")

    def _as_seen(self, draft: UnitOfWork, session_id: SessionId) -> Session | None:
        """The session, if it still waits and has not changed since the pass began."""
        session, row = draft.session(session_id), self.rows.get(session_id)
        if session is None or not session.is_pending or (row is not None and row.version != session.version):
            return None
        return session

    def _evict(self, draft: UnitOfWork, *, evictions: Sequence[Eviction]) -> None:
        for eviction in () if draft.orchestration().is_stopped else still_due(draft, evictions):
            session = draft.session(eviction.session_id)
            if session is None or session.version != eviction.version or session.state is not SessionState.RUNNING:
                continue
            if eviction.cause is PreemptionCause.IDLE:
                act(draft, session, eviction, now_us=self.now_us)
            evict(
                draft,
                session,
                cause=eviction.cause,
                by_session=eviction.by_session,
                by_user=eviction.by_user,
                now_us=self.now_us,
                grace_ms=eviction.grace_ms,
            )


def slices(placements: Sequence[Placement]) -> Iterator[Sequence[Placement]]:
    """Placements in order, in slices of at most `KERNELS_MAX` kernels; a larger placement is a slice by itself."""
    part: list[Placement] = []
    kernels = 0
    for placement in placements:
        if part and kernels + len(placement.kernels) > KERNELS_MAX:
            yield part
            part, kernels = [], 0
        part.append(placement)
        kernels += len(placement.kernels)
    if part:
        yield part


class PlacementWriter(Struct, frozen=True, kw_only=True):
    """Writer of placements; `now_us` and `epoch` are those of the pass."""

    state: State
    epoch: int
    now_us: int
    arrays: Mapping[SessionId, PendingRow] = field(default_factory=dict)
    """Job arrays as the pass saw them. An array that is missing is only valid in the version of its placement."""

    def write(self, draft: UnitOfWork, placements: Iterable[Placement]) -> tuple[SessionId, ...]:
        """Write the placements that are still valid, and skip the others; returns the sessions granted devices."""
        used = self.state.foreign_usage.over(self.state.used)
        granted: list[SessionId] = []
        for placement in placements:
            session = draft.session(placement.session_id)
            if session is None or not self._is_as_decided(session, placement):
                continue
            if not all(self._takes_work(kernel.agent_id) for kernel in placement.kernels):
                continue
            if still_fits(placement, layouts=self.state.layouts, used=used):
                if placement.index is not None:
                    session = self._split(draft, session, placement.index)
                self._grant(draft, session, placement)
                granted.append(session.id)
        return tuple(granted)

    def _is_as_decided(self, session: Session, placement: Placement) -> bool:
        """Whether the session is as the pass saw it.

        Reads the version in the state, because the unit of work raises an array's with each task it splits off. An
        array may have changed in its tasks alone: they end at any time, also between two commits of one plan.
        """
        row = self.state.pending.get(session.id)
        if row is None or session.state is not SessionState.QUEUED:
            return False
        seen = self.arrays.get(session.id, row)
        if row.version != placement.version and not (seen.version == placement.version and asks_the_same(row, seen)):
            return False
        if placement.index is None or session.tasks is None:
            return placement.index is None and session.tasks is None
        return placement.index in session.tasks.waiting and startable(session.tasks) > 0

    def _takes_work(self, agent_id: AgentId) -> bool:
        agent = self.state.agents.get(agent_id)
        return agent is not None and is_open(self.state, agent)

    def _split(self, draft: UnitOfWork, array: Session, index: int) -> Session:
        """Make one task of an array a session of its own; one that ran before continues its attempt numbers."""
        split = transitions.start_task(array, index, now_us=self.now_us)
        draft.merge(split, "running" if split.state is SessionState.RUNNING else "split")
        name = task_id(array.id, index=index)
        known = draft.session(name)
        if known is not None:
            waiting = transitions.run_again(known, now_us=self.now_us) if known.is_ended else known
            free = transitions.release_hold(waiting) if waiting.state is SessionState.HELD else waiting
            # It is placed by the array's request, which may have changed since it ran before.
            return replace(
                free,
                queued_us=array.queued_us,
                priority=array.priority,
                spec=array.spec,
                fallback_level=array.fallback_level,
                pool=array.pool,
                project=array.project,
            )
        return replace(
            array,
            id=name,
            version=0,
            attempt=0,
            idempotency_key=None,
            request_hash=None,
            array_id=array.id,
            array_index=index,
            tasks=None,
            scheduled_us=None,
            started_us=None,
        )

    def _grant(self, draft: UnitOfWork, session: Session, placement: Placement) -> None:
        """Write session, leases and kernels, the session first: it names the account charged for its leases."""
        booking = None if session.spec.booking is None else draft.find(Booking, session.spec.booking)
        if booking is not None and booking.used_us is None and booking.is_active(self.now_us):
            draft.put(replace(booking, used_us=self.now_us), "used")
        if session.spec.outside_ms is not None:
            lease_ms = session.spec.outside_ms
            lasts_ms = min(lease_ms, session.spec.time_limit_ms or lease_ms)
            self._grant_external_allocation(draft, session, placement, lasts_ms=lasts_ms)
            return
        scheduled = draft.put(transitions.schedule(session, now_us=self.now_us), "scheduled")
        for kernel in placement.kernels:
            name = kernel_id(session.id, attempt=scheduled.attempt, rank=kernel.rank)
            lease = Lease(
                id=LeaseId(name),
                version=0,
                kind=LeaseKind.SESSION,
                owner=session.owner,
                session_id=session.id,
                kernel_id=name,
                agent_id=kernel.agent_id,
                spec=kernel.spec,
                epoch=self.epoch,
                granted_us=self.now_us,
            )
            draft.put(lease, "granted")
            draft.put(self._kernel(name, scheduled, kernel.rank, kernel.agent_id), "granted")

    def _grant_external_allocation(
        self, draft: UnitOfWork, session: Session, placement: Placement, *, lasts_ms: int
    ) -> None:
        """Write an external allocation, which runs from now on without kernels."""
        draft.put(transitions.hold_external_allocation(session, now_us=self.now_us), "running")
        for kernel in placement.kernels:
            lease = Lease(
                id=LeaseId(f"{LEASE_PREFIX}{session.id.removeprefix(SESSION_PREFIX)}.{kernel.rank}"),
                version=0,
                kind=LeaseKind.MANUAL,
                owner=session.owner,
                session_id=session.id,
                agent_id=kernel.agent_id,
                spec=kernel.spec,
                epoch=self.epoch,
                granted_us=self.now_us,
                until_us=self.now_us + lasts_ms * 1000,
            )
            draft.put(lease, "granted")

    def _kernel(self, name: KernelId, session: Session, rank: int, agent_id: AgentId) -> Kernel:
        return Kernel(
            id=name,
            version=0,
            session_id=session.id,
            attempt=session.attempt,
            rank=rank,
            agent_id=agent_id,
            epoch=self.epoch,
            granted_us=self.now_us,
        )
