"""Previews: what a scheduling pass would do now with a session that is not submitted yet, and when it would start."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from msgspec.structs import replace

from aliquot.core.foresight.forecast import HypotheticalSession
from aliquot.core.model.plan import KernelPlacement, Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import Queue
from aliquot.core.model.snapshot import PendingRow, Snapshot, owner_estimate_ms
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.decide import decide
from aliquot.core.workloads import workload_of
from aliquot.service.access import check_may_submit
from aliquot.service.billing.estimates import estimate
from aliquot.service.ports import Clock
from aliquot.service.sessions.submission import Submission
from aliquot.service.state.forecast_board import QuestionQueue
from aliquot.service.state.rows import pending_row
from aliquot.service.state.snapshots import take
from aliquot.service.state.state import State
from aliquot.service.views.sessions import grants, verdict_view
from aliquot.service.views.start_forecasts import STOPPED, hypothetical_view
from aliquot.service.views.terms import estimate_view, microseconds_or_none, moment_or_none
from aliquot_schema.errors import AliquotError, LimitExceeded, Unavailable
from aliquot_schema.ids import SessionId, UserId, task_parts
from aliquot_schema.policies import Backfill
from aliquot_schema.reasons import OUT_OF_LINE, Reason, Verdict
from aliquot_schema.requests import Caller, NewSession
from aliquot_schema.resources.slots import ResourceSlot
from aliquot_schema.sessions import Session
from aliquot_schema.views.forecasts import ForecastView
from aliquot_schema.views.preview import DisplacedView, PlannedKernelView, SessionPreview
from aliquot_schema.views.right_size import RightSizeView
from aliquot_schema.views.session_parts import FailureView
from aliquot_schema.views.sessions import slot_amounts

SEED: Final = 0
AHEAD_MAX: Final = 200
"""Sessions ahead in the queue, at most, for which a start is estimated."""

FORECASTS_MAX: Final = 8
"""Sessions that are forecast at once."""
Sizing = Callable[[Session], Awaitable[RightSizeView | None]]
TOO_MANY_AHEAD: Final = "too many sessions are ahead of it to tell"


class Previews:
    """Runs `decide` on the current state with one more pending row, in a worker thread; commits nothing."""

    def __init__(
        self,
        *,
        state: State,
        creation: Submission,
        clock: Clock,
        questions: QuestionQueue,
        sizing: Sizing | None = None,
    ) -> None:
        """
        Args:
            sizing: right-size advice for a session that is not submitted; None = there is none.
        """
        self._questions = questions
        self._sizing = sizing
        self._state = state
        self._creation = creation
        self._clock = clock
        self._cache = PassCache()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="preview")

    async def preview(
        self,
        caller: Caller,
        request: NewSession,
        *,
        with_vetting: bool = True,
        after: tuple[Snapshot, Policy] | None = None,
    ) -> SessionPreview:
        """The outcome of submitting a request now.

        Args:
            with_vetting: see `Submission.dry_run`.
            after: the state and the policy as they would be; None = as they are.
        Raises:
            InvalidRequest, UnknownSlot, ImpossibleRequest, QuotaExceeded, QueueFull, UnknownDependency, Forbidden: as
            for a submission.
        """
        session = await self._creation.dry_run(caller, request, with_vetting=with_vetting)
        workload = workload_of(session)
        forecast = self._state.forecasts.like(workload)
        row = pending_row(session, workload=workload)
        snapshot, rules = (take(self._state), self._state.rules) if after is None else after
        now_us, cache = self._clock.now_us(), self._cache if after is None else PassCache()

        def plan() -> tuple[Plan, int | None]:
            waiting = Queue.of((*snapshot.queue, row))
            known = snapshot.run_times if forecast is None else {**snapshot.run_times, workload: forecast.run_times}
            with_it = replace(snapshot, queue=waiting, run_times=known)
            found = decide(with_it, rules, now_us=now_us, seed=SEED, known=cache)
            return found, _estimated_us(found, row, with_it, rules, now_us=now_us)

        decided, estimated_us = await asyncio.get_running_loop().run_in_executor(self._worker, plan)
        preview = _rendered(decided, row, snapshot, slots=session.spec.slots, now_us=now_us)
        if preview.expected_start is None:
            preview = replace(preview, estimated_start=moment_or_none(estimated_us))
        if self._state.orchestration.is_stopped:
            waits = verdict_view(Verdict(reason=Reason.STOPPED))
            preview = replace(
                preview, starts_now=False, tasks_starting=0, waits=waits, expected_start=None, estimated_start=None
            )
        if rules.prices.rates:
            expected = owner_estimate_ms(session.spec) or (None if forecast is None else forecast.run_times.mean_ms)
            starts = _starts_us(preview, now_us=now_us)
            kernels = next((one.kernels for one in decided.placements if one.session_id == row.session_id), ())
            cost = estimate(row, kernels, snapshot, prices=rules.prices, expected_ms=expected, from_us=starts)
            preview = replace(preview, cost=cost)
        sized = None if self._sizing is None else await self._sizing(session)
        return replace(preview, order_estimate=estimate_view(session.spec, forecast), right_size=sized)

    async def forecasts(
        self, caller: Caller, requests: Sequence[NewSession]
    ) -> tuple[ForecastView | AliquotError, ...]:
        """When each of these sessions would start if it were submitted alone; for a request that would be refused, the
        error.

        Raises:
            LimitExceeded: more than `FORECASTS_MAX` requests.
            Forbidden: the caller may not submit sessions.
        """
        check_may_submit(caller)
        if len(requests) > FORECASTS_MAX:
            raise LimitExceeded(
                f"{len(requests)} sessions were given; at most {FORECASTS_MAX} are forecast at once",
                field="inputs",
                limit=FORECASTS_MAX,
                actual=len(requests),
            )
        found: list[HypotheticalSession | AliquotError] = []
        for request in requests:
            try:
                found.append(self._hypothetical(await self._creation.dry_run(caller, request)))
            except AliquotError as error:
                found.append(error)
        forecasts = iter(
            await self._forecasts([one for one in found if isinstance(one, HypotheticalSession)], by=caller.user)
        )
        return tuple(one if isinstance(one, AliquotError) else next(forecasts) for one in found)

    def _hypothetical(self, session: Session) -> HypotheticalSession:
        workload = workload_of(session)
        forecast = self._state.forecasts.like(workload)
        run_times = None if forecast is None else forecast.run_times
        return HypotheticalSession(row=pending_row(session, workload=workload), run_times=run_times)

    async def _forecasts(self, sessions: Sequence[HypotheticalSession], *, by: UserId) -> list[ForecastView]:
        if not sessions or self._state.orchestration.is_stopped:
            return [hypothetical_view(self._state, None, missing=STOPPED)] * len(sessions)
        try:
            forecasts = await self._questions.ask(sessions, by=by)
        except Unavailable as error:
            missing = self._state.board.missing or error.message
            return [hypothetical_view(self._state, None, missing=missing)] * len(sessions)
        return [hypothetical_view(self._state, one, missing=None if one else TOO_MANY_AHEAD) for one in forecasts]

    def close(self) -> None:
        """Stop the worker thread."""
        self._worker.shutdown(wait=False, cancel_futures=True)


def _starts_us(preview: SessionPreview, *, now_us: int) -> int:
    """When it would start, as far as that is known; else now."""
    return microseconds_or_none(preview.expected_start or preview.estimated_start) or now_us


def _rendered(plan: Plan, row: PendingRow, snapshot: Snapshot, *, slots: ResourceSlot, now_us: int) -> SessionPreview:
    name = row.session_id
    starting = [placement for placement in plan.placements if placement.session_id == name]
    promised = [promise for promise in (plan.reservation, *plan.promises) if promise and promise.session_id == name]
    kernels = starting[0].kernels if starting else promised[0].kernels if promised else ()
    verdict = plan.verdicts.get(name)
    failure = plan.failures.get(name)
    expected_us = plan.promised_us().get(name)
    if verdict is not None and verdict.reason is Reason.MAKING_ROOM:
        expected_us = verdict.evidence.until_us
    return SessionPreview(
        revision=snapshot.revision,
        slots=slot_amounts(list(slots.to_text().items())),
        starts_now=bool(starting),
        kernels=_planned(kernels),
        tasks_starting=len(starting),
        queue_position=_line_position(plan, name),
        waits=None if verdict is None else verdict_view(_without_own_tasks(verdict, name)),
        expected_start=moment_or_none(None if starting else expected_us),
        failure=None if failure is None else FailureView(code=failure.code, message=failure.message),
        displaces=_displaced(plan, name, snapshot, now_us=now_us),
        order_estimate=None,
    )


def _without_own_tasks(verdict: Verdict, name: SessionId) -> Verdict:
    """The verdict of a job array, part of which starts, without naming these tasks: they do not exist."""
    blocked_by = tuple(other for other in verdict.evidence.blocked_by if task_parts(other)[0] != name)
    return replace(verdict, evidence=replace(verdict.evidence, blocked_by=blocked_by))


def _estimated_us(plan: Plan, row: PendingRow, snapshot: Snapshot, rules: Policy, *, now_us: int) -> int | None:
    """Estimated start of a row that waits without a reservation: when it would start if it and each session ahead of
    it had one. None if it is unknown, or more than `AHEAD_MAX` sessions are ahead."""
    name = row.session_id
    if name not in plan.verdicts or plan.verdicts[name].reason is Reason.QUOTA or name in plan.promised_us():
        return None
    placed = {placement.session_id for placement in plan.placements}
    ahead = set(list(plan.verdicts)[: _position(plan, name) - 1])
    if len(ahead) > AHEAD_MAX:
        return None
    counted = ahead | placed
    queue = Queue.of((*(one for one in snapshot.queue if one.session_id in counted), row))
    reserving = replace(rules, backfill=Backfill.CONSERVATIVE, backfill_depth=AHEAD_MAX + 1)
    promised = decide(replace(snapshot, queue=queue), reserving, now_us=now_us, seed=SEED).promised_us()
    if rules.backfill is Backfill.NONE:
        return max(promised.values()) if name in promised else None
    return promised.get(name)


def _planned(kernels: Sequence[KernelPlacement]) -> tuple[PlannedKernelView, ...]:
    return tuple(
        PlannedKernelView(
            rank=kernel.rank, agent_id=kernel.agent_id, node_id=kernel.node_id, resource_spec=grants(kernel.spec)
        )
        for kernel in kernels
    )


def _position(plan: Plan, name: SessionId) -> int:
    return next(place for place, other in enumerate(plan.verdicts, start=1) if other == name)


def _line_position(plan: Plan, name: SessionId) -> int | None:
    """Position among the sessions that wait for their turn; None when it does not."""
    line = [other for other, verdict in plan.verdicts.items() if verdict.reason not in OUT_OF_LINE]
    return line.index(name) + 1 if name in line else None


def _displaced(plan: Plan, name: SessionId, snapshot: Snapshot, *, now_us: int) -> tuple[DisplacedView, ...]:
    running = {held.session_id: held for held in snapshot.running}
    found = []
    for eviction in plan.evictions:
        if eviction.by_session == name:
            held = running[eviction.session_id]
            has_run = None if held.started_us is None else max(now_us - held.started_us, 0) / 1e6
            found.append(
                DisplacedView(session_id=held.session_id, owner=held.owner, cause=eviction.cause, has_run=has_run)
            )
    return tuple(found)
