"""Previews: what a scheduling pass would do now with a session that is not submitted yet."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from aliquot.core.model.plan import KernelPlacement, Plan
from aliquot.core.model.queue import Queue
from aliquot.core.model.snapshot import PendingRow, Snapshot
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.decide import decide
from aliquot.service.ports import Clock
from aliquot.service.sessions.submission import Submission
from aliquot.service.state.rows import pending_row
from aliquot.service.state.snapshots import take
from aliquot.service.state.state import State
from aliquot.service.views.sessions import grants, verdict_view
from aliquot.service.views.terms import estimate_view, moment_or_none
from aliquot_schema.ids import SessionId
from aliquot_schema.reasons import Reason, Verdict
from aliquot_schema.requests import Caller, NewSession
from aliquot_schema.resources.slots import ResourceSlot
from aliquot_schema.views.preview import DisplacedView, PlannedKernelView, SessionPreview
from aliquot_schema.views.sessions import FailureView, slot_amounts

SEED: Final = 0


class Previews:
    """Runs `decide` on the current state with one more pending row, in a worker thread; commits nothing."""

    def __init__(self, *, state: State, creation: Submission, clock: Clock) -> None:
        self._state = state
        self._creation = creation
        self._clock = clock
        self._cache = PassCache()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="preview")

    async def preview(self, caller: Caller, request: NewSession, *, with_vetting: bool = True) -> SessionPreview:
        """The outcome of submitting a request now.

        Args:
            with_vetting: see `Submission.dry_run`.
        Raises:
            InvalidRequest, UnknownSlot, ImpossibleRequest, QuotaExceeded, QueueFull, UnknownDependency, Forbidden: as
            for a submission.
        """
        session = await self._creation.dry_run(caller, request, with_vetting=with_vetting)
        forecast = self._state.forecast_like(session)
        row = pending_row(session, estimate_ms=None if forecast is None else forecast.estimate_ms)
        snapshot, rules, now_us = take(self._state), self._state.rules, self._clock.now_us()

        def plan() -> Plan:
            waiting = Queue.of((*snapshot.queue, row))
            return decide(replace(snapshot, queue=waiting), rules, now_us=now_us, seed=SEED, known=self._cache)

        decided = await asyncio.get_running_loop().run_in_executor(self._worker, plan)
        preview = _rendered(decided, row, snapshot, slots=session.spec.slots, now_us=now_us)
        if self._state.orchestration.is_stopped:
            waits = verdict_view(Verdict(reason=Reason.STOPPED))
            preview = replace(preview, starts_now=False, tasks_starting=0, waits=waits, expected_start=None)
        return replace(preview, order_estimate=estimate_view(session.spec, forecast))

    def close(self) -> None:
        """Stop the worker thread."""
        self._worker.shutdown(wait=False, cancel_futures=True)


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
        queue_position=None if verdict is None else _position(plan, name),
        waits=None if verdict is None else verdict_view(verdict),
        expected_start=moment_or_none(None if starting else expected_us),
        failure=None if failure is None else FailureView(code=failure.code, message=failure.message),
        displaces=_displaced(plan, name, snapshot, now_us=now_us),
        order_estimate=None,
    )


def _planned(kernels: Sequence[KernelPlacement]) -> tuple[PlannedKernelView, ...]:
    return tuple(
        PlannedKernelView(
            rank=kernel.rank, agent_id=kernel.agent_id, node_id=kernel.node_id, resource_spec=grants(kernel.spec)
        )
        for kernel in kernels
    )


def _position(plan: Plan, name: SessionId) -> int:
    return next(place for place, other in enumerate(plan.verdicts, start=1) if other == name)


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
