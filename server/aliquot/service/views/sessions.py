"""Session views: read models of sessions, kernels and verdicts, and the committed steps of a session."""

from datetime import datetime
from operator import attrgetter
from typing import Any, Final, TypedDict

from aliquot.core.scheduler.reason_text import explain
from aliquot.service.ports import Store
from aliquot.service.state.rows import planned_ms
from aliquot.service.state.state import State
from aliquot.service.views.pagination import cursor_page_of, number_before
from aliquot.service.views.start_forecasts import forecast_view
from aliquot.service.views.terms import (
    allocated_gpus,
    estimate_view,
    fallback_view,
    gb,
    idle_view,
    moment,
    moment_or_none,
    pairs,
    preemption_view,
    preflight_view,
    pull_view,
    room_made_text,
    saved_work_view,
    seconds,
    signal_name,
    tasks_view,
)
from aliquot_schema.events import Event
from aliquot_schema.ids import LeaseId, SessionId, kernel_id, natural_key
from aliquot_schema.reasons import Reason, Verdict
from aliquot_schema.requests import PageRequest
from aliquot_schema.resources.devices import ResourceSpec
from aliquot_schema.resources.leases import Kernel
from aliquot_schema.resources.slots import format_amount
from aliquot_schema.sessions import Session, SessionSpec, Topology, app_port
from aliquot_schema.states import ACTIVE, ENDED, KernelState, ServiceState, SessionState
from aliquot_schema.views.audit import CursorPage, SessionStepView
from aliquot_schema.views.session_parts import FailureView, SessionServiceView
from aliquot_schema.views.sessions import (
    DependencyView,
    DeviceAmountView,
    KernelView,
    NameValueView,
    SessionView,
    SlotGrantView,
    VerdictView,
    slot_amounts,
)


def grants(spec: ResourceSpec) -> tuple[SlotGrantView, ...]:
    """A resource spec, slots and devices in natural order."""
    return tuple(
        SlotGrantView(
            slot=slot,
            devices=tuple(
                DeviceAmountView(device_id=device_id, amount=format_amount(slot, amounts[device_id]))
                for device_id in sorted(amounts, key=natural_key)
            ),
        )
        for slot, amounts in sorted(spec.items())
    )


def kernel_view(state: State, kernel: Kernel) -> KernelView:
    """One kernel, with the devices of its lease."""
    lease = state.leases.get(LeaseId(kernel.id))
    transfer = state.transfers.get(kernel.id) if kernel.state is KernelState.STARTING else None
    return KernelView(
        id=kernel.id,
        session_id=kernel.session_id,
        attempt=kernel.attempt,
        rank=kernel.rank,
        agent_id=kernel.agent_id,
        state=kernel.state,
        resource_spec=grants(lease.spec) if lease is not None else (),
        holds_devices=kernel.state is not KernelState.EXITED,
        granted_at=moment(kernel.granted_us),
        started_at=moment_or_none(kernel.started_us),
        ended_at=moment_or_none(kernel.ended_us),
        exit_code=kernel.exit_code,
        signal=kernel.signal,
        timed_out=kernel.timed_out,
        message=kernel.message if transfer is None else transfer.text,
        host_use=state.host_uses.of(kernel),
    )


def verdict_view(verdict: Verdict, *, message: str | None = None) -> VerdictView:
    """Why a session waits: reason code and message.

    Args:
        message: a longer one than that of the pass.
    """
    evidence = verdict.evidence
    return VerdictView(
        reason=verdict.reason,
        message=explain(verdict) if message is None else message,
        slot=evidence.slot,
        requested=evidence.requested,
        available=evidence.available,
        quota=evidence.quota,
        limit=evidence.limit,
        held=evidence.held,
        may_borrow=evidence.may_borrow,
        fits_kernels=evidence.fits_kernels,
        blocked_by=tuple(evidence.blocked_by),
        agents=tuple(evidence.agents),
        devices=tuple(evidence.devices),
        until=moment_or_none(evidence.until_us),
    )


class _Constraints(TypedDict):
    """Where a session may be placed."""

    labels: tuple[NameValueView, ...]
    preferred_labels: tuple[NameValueView, ...]
    models: tuple[str, ...]
    preferred_models: tuple[str, ...]
    topology: Topology


class _SavingWork(TypedDict):
    """How a session saves its work."""

    checkpoint_signal: str | None
    checkpoint_every: float | None
    grace: float | None


def _saving(spec: SessionSpec) -> _SavingWork:
    return {
        "checkpoint_signal": None if spec.checkpoint_signal is None else signal_name(spec.checkpoint_signal),
        "checkpoint_every": seconds(spec.checkpoint_every_ms),
        "grace": seconds(spec.grace_ms),
    }


def _constraints(spec: SessionSpec) -> _Constraints:
    return {
        "labels": pairs(spec.labels),
        "preferred_labels": pairs(spec.preferred_labels),
        "models": spec.models,
        "preferred_models": spec.preferred_models,
        "topology": spec.topology,
    }


def _services(session: Session) -> tuple[SessionServiceView, ...]:
    if not session.spec.apps:
        return ()
    ended, runs = session.state in ENDED, session.state is SessionState.RUNNING
    state = ServiceState.ENDED if ended else ServiceState.RUNNING if runs else ServiceState.WAITING
    kernel = kernel_id(session.id, attempt=session.attempt, rank=0)
    return tuple(
        SessionServiceView(
            name=name,
            port=(app_port(kernel, name, port) if session.attempt else port) or None,
            asked_port=port,
            url=f"/sessions/{session.id}/apps/{name}",
            state=state,
        )
        for name, port in session.spec.apps.items()
    )


def session_view(state: State, session: Session) -> SessionView:
    """The current view of a session."""
    spec = session.spec
    return SessionView(
        id=session.id,
        version=session.version,
        owner=session.owner,
        project=session.project,
        pool=session.pool,
        name=session.name,
        run_id=session.run_id,
        tags=pairs(session.tags),
        command=spec.argv,
        slots=slot_amounts([(slot, format_amount(slot, amount)) for slot, amount in spec.slots.items()]),
        cluster_size=spec.cluster_size,
        cluster_size_min=spec.cluster_size_min,
        gpu_memory_gb=None if spec.gpu_memory_bytes is None else gb(spec.gpu_memory_bytes),
        environment=pairs(spec.environment),
        **_place_and_access(session),
        estimated_duration=seconds(spec.estimated_duration_ms),
        time_limit=seconds(spec.time_limit_ms),
        max_retries=spec.max_retries,
        retry_count=session.retries,
        preemptible=spec.preemptible,
        depends_on=_dependencies(state, session),
        priority=session.priority,
        state=session.state,
        attempt=session.attempt,
        queue_position=state.position(session.id),
        waits=_waits(state, session),
        kernels=tuple(kernel_view(state, kernel) for kernel in state.kernels_in(session)),
        holds_devices=state.holds_devices(session.id),
        queued_at=moment(session.queued_us),
        scheduled_at=moment_or_none(session.scheduled_us),
        started_at=moment_or_none(session.started_us),
        ended_at=moment_or_none(session.ended_us),
        exit_code=session.exit_code,
        signal=session.signal,
        failure=None if session.failure is None else _failure(session),
        retries_own_failures=spec.retries_own_failures,
        **_saving(spec),
        **_constraints(spec),
        fallbacks=tuple(fallback_view(fallback) for fallback in spec.fallbacks),
        fallback_level=session.fallback_level,
        preemptions=session.preemptions,
        preemption=None if session.preemption is None else preemption_view(session.preemption),
        **_idle(state, session),
        **_work(session),
        held_by=session.held_by,
        array_id=session.array_id,
        array_index=session.array_index,
        tasks=None if session.tasks is None else tasks_view(session.tasks),
        order_estimate=estimate_view(spec, state.forecasts.of(session.id)),
        reserve_until=reserve_until(state, session),
        expected_start=_expected_start(state, session),
        forecast=forecast_view(state, session),
        services=_services(session),
        scheduling_policy=state.policy.order,
        allocated_gpus=allocated_gpus(state, session),
    )


def _idle(state: State, session: Session) -> dict[str, Any]:
    """That it does not use its GPUs, and which session left because it did not."""
    room_made = state.idle_cases.made_room_for.get(session.id)
    return {
        "idle": idle_view(state, session) if session.state is SessionState.RUNNING else None,
        "room_made": None if room_made is None else room_made_text(room_made),
    }


def _work(session: Session) -> dict[str, Any]:
    """What it has saved and lost, and what its newest attempt continues."""
    if session.work is None and session.preemption is None:
        return {"work": None, "kept": 0.0, "kept_at_start": 0.0}
    return {
        "work": saved_work_view(session.work),
        "kept": session.kept_ms / 1000,
        "kept_at_start": session.kept_at_start_ms / 1000,
    }


def _place_and_access(session: Session) -> dict[str, Any]:
    """Where its command runs, what is checked before, and who else may enter."""
    spec = session.spec
    return {
        "preflight": preflight_view(session),
        "pull": pull_view(session),
        "working_directory": spec.working_directory,
        "workspace": spec.workspace,
        "activates": spec.activates,
        "image": spec.image,
        "shares_access": spec.shares_access,
        "booking": spec.booking,
    }


def reserve_until(state: State, session: Session) -> datetime | None:
    """Until when a pass plans with its devices being held, see `expected_ends`; None when it holds none."""
    ends_us = state.external_allocations.end_of(session.id) if session.is_external_allocation else None
    if ends_us is not None:
        return moment(ends_us)
    began_us = session.started_us if session.started_us is not None else session.scheduled_us
    if session.state not in ACTIVE or session.tasks is not None or began_us is None:
        return None
    if session.state is SessionState.PREEMPTING and session.preemption is not None:
        return moment(session.preemption.until_us)
    held_ms = planned_ms(session, state.forecasts.of(session.id), policy=state.rules)
    return moment(began_us + held_ms * 1000)


def _waits(state: State, session: Session) -> VerdictView | None:
    if state.orchestration.is_stopped and session.state is SessionState.QUEUED:
        return verdict_view(Verdict(reason=Reason.STOPPED))
    verdict = state.verdicts.get(session.id) if session.is_pending else None
    if verdict is None:
        return None
    return waits_view(state, verdict, session=session)


def waits_view(state: State, verdict: Verdict, *, session: Session | None) -> VerdictView:
    """Why a session waits, with what the pass does not know: full disks, foreign processes, nodes about to leave.

    Args:
        session: None for a task without a record of its own.
    """
    message = state.foreign_usage.explained(explain(verdict), reason=verdict.reason)
    message = state.registry.explained(message, reason=verdict.reason)
    if session is not None and session.preflight is not None and session.excluded_agents:
        message = f"{message.removesuffix('.')}; not on {', '.join(session.excluded_agents)} after a failed preflight"
    return verdict_view(verdict, message=state.disk_space.explained(message, reason=verdict.reason))


def _expected_start(state: State, session: Session) -> datetime | None:
    """Start time by its reservation, or by the grace periods of the sessions preempted for it."""
    if not session.is_pending or state.orchestration.is_stopped:
        return None
    verdict = state.verdicts.get(session.id)
    if verdict is not None and verdict.reason is Reason.MAKING_ROOM:
        return moment_or_none(verdict.evidence.until_us)
    return moment_or_none(state.promised_us.get(session.id))


def _failure(session: Session) -> FailureView:
    assert session.failure is not None
    return FailureView(code=session.failure.code, message=session.failure.message)


def _dependencies(state: State, session: Session) -> tuple[DependencyView, ...]:
    return tuple(
        DependencyView(
            session_id=link.session_id,
            condition=link.condition,
            state=known.state if (known := state.sessions.get(link.session_id)) is not None else None,
        )
        for link in session.spec.depends_on
    )


_PULLS: Final = ("pulling", "pulled")
KINDS: Final = tuple(
    f"session.{what}"
    for what in (*map(str, SessionState), "released", "requeued", "retried", "expired", "preflight_failed", *_PULLS)
)
"""Events that may change the state of a session; other events change its priority, its tasks and the like."""


async def steps_of(store: Store, session_id: SessionId, page: PageRequest) -> CursorPage[SessionStepView]:
    """Steps of a session, newest first, as far back as the log is kept. They contain no hidden fields."""
    found = await store.session_steps(session_id, kinds=KINDS, before=number_before(page), limit=page.first + 1)
    return cursor_page_of(found, page, number=attrgetter("number"), show=_step_view)


def _step_view(event: Event) -> SessionStepView:
    session = event.record
    assert isinstance(session, Session), f"event {event.number} has no session"
    receipt = session.preemption
    return SessionStepView(
        number=event.number,
        at=moment(event.at_us),
        kind=event.kind,
        state=session.state,
        attempt=session.attempt,
        held_by=session.held_by,
        preemption=None if receipt is None else preemption_view(receipt),
        pull=pull_view(session) if event.kind.removeprefix("session.") in _PULLS else None,
    )
