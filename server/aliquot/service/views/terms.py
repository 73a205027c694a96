"""View values: times, amounts, names, and the parts of a session view that other views share."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from signal import Signals
from typing import TYPE_CHECKING, Final

from aliquot.core.allocation.occupancy import budget_cost
from aliquot.core.idle_process import IdleCase, acts_us, idle_text
from aliquot.core.model.snapshot import owner_estimate_ms
from aliquot.core.prediction import Prediction
from aliquot_schema.alerts import AlertRule
from aliquot_schema.ids import AgentId, DeviceId, LeaseId
from aliquot_schema.intervals import Intervals
from aliquot_schema.policies import IdleAction, IdleStep
from aliquot_schema.resources.leases import Lease
from aliquot_schema.resources.slots import MILLI, format_amount, is_accelerator
from aliquot_schema.sessions import ArrayTasks, Fallback, PreemptionReceipt, SavedWork, Session, SessionSpec
from aliquot_schema.views.session_parts import (
    IdleNoticeView,
    ImagePullView,
    PreemptionView,
    PreflightView,
    SavedWorkView,
)
from aliquot_schema.views.sessions import (
    AllocatedGpuView,
    ArrayTasksView,
    FallbackView,
    NameValueView,
    OrderEstimateView,
    TaskSetView,
    slot_amounts,
)

if TYPE_CHECKING:
    from aliquot.service.state.state import State

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
GB: Final = 1_000_000_000


def moment(at_us: int) -> datetime:
    """Microseconds UTC as an aware datetime, exact."""
    return EPOCH + timedelta(microseconds=at_us)


def microseconds(at: datetime) -> int:
    """An aware datetime as microseconds UTC, exact."""
    return (at - EPOCH) // timedelta(microseconds=1)


def moment_or_none(at_us: int | None) -> datetime | None:
    """As `moment`; None for None."""
    return None if at_us is None else moment(at_us)


def microseconds_or_none(at: datetime | None) -> int | None:
    """As `microseconds`; None for None."""
    return None if at is None else microseconds(at)


def seconds(milliseconds: int | None) -> float | None:
    """Milliseconds as seconds."""
    return None if milliseconds is None else milliseconds / 1000


def gb(size: int) -> str:
    """Bytes as decimal text in 10^9 bytes."""
    whole, rest = divmod(size, GB)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".") if rest else str(whole)


def pairs(mapping: Mapping[str, str]) -> tuple[NameValueView, ...]:
    """Names and values, sorted by name."""
    return tuple([NameValueView(name=name, value=value) for name, value in sorted(mapping.items())]) if mapping else ()


def signal_name(number: int) -> str:
    """Name such as `SIGUSR1`; the number for a real-time signal without a name."""
    return Signals(number).name if number in [int(known) for known in Signals] else str(number)


def fallback_view(fallback: Fallback) -> FallbackView:
    """A fallback request."""
    return FallbackView(
        slots=slot_amounts([(slot, format_amount(slot, amount)) for slot, amount in fallback.slots.items()]),
        cluster_size=fallback.cluster_size,
        gpu_memory_gb=None if fallback.gpu_memory_bytes is None else gb(fallback.gpu_memory_bytes),
        after=fallback.after_ms / 1000,
    )


def preemption_view(receipt: PreemptionReceipt) -> PreemptionView:
    """Which session caused a preemption, why, and the GPU time lost by it."""
    lost = receipt.lost_ms
    return PreemptionView(
        cause=receipt.cause,
        by_session=receipt.by_session,
        by_user=receipt.by_user,
        at=moment(receipt.at_us),
        until=moment(receipt.until_us),
        lost_gpu_seconds=None if lost is None else lost / MILLI / 1000,
    )


def pull_view(session: Session) -> ImagePullView | None:
    """The pull of its image in its newest attempt; None without one."""
    pull = session.pull
    if pull is None or pull.attempt != session.attempt:
        return None
    return ImagePullView(
        agent_id=pull.agent_id,
        rank=pull.rank,
        began_at=moment(pull.began_us),
        ended_at=None if pull.ended_us is None else moment(pull.ended_us),
        bytes_done=pull.bytes_done,
        bytes_total=pull.bytes_total,
        layers_done=pull.layers_done,
        layers=pull.layers,
        size=pull.size_bytes,
    )


def preflight_view(session: Session) -> PreflightView | None:
    """The check before a session's command, and where it failed last; None without one."""
    check, last = session.spec.preflight, session.preflight
    if check is None:
        return None
    return PreflightView(
        command=check.argv,
        time_limit=check.limit_ms / 1000,
        failures=0 if last is None else last.failures,
        agent_id=None if last is None else last.agent_id,
        message=None if last is None else last.message,
        failed_at=None if last is None else moment(last.at_us),
    )


def saved_work_view(work: SavedWork | None) -> SavedWorkView | None:
    """What a session saved and lost."""
    if work is None:
        return None
    return SavedWorkView(
        kept=work.kept_ms / 1000,
        saved_at=moment_or_none(work.saved_us),
        agent_id=work.agent_id,
        resumed_from=work.began_ms / 1000,
        note=work.note,
        lost_gpu_seconds=work.lost_ms / MILLI / 1000,
        credited_gpu_seconds=work.credited_ms / MILLI / 1000,
    )


def estimate_view(spec: SessionSpec, forecast: Prediction | None) -> OrderEstimateView | None:
    """Expected run time of a session: the owner's estimate, else the forecast; None without either."""
    estimate_ms = owner_estimate_ms(spec)
    if estimate_ms is not None:
        is_limited = estimate_ms != spec.estimated_duration_ms
        explanation = "its time limit, which is below its owner's estimate" if is_limited else "estimated by its owner"
        return OrderEstimateView(seconds=estimate_ms / 1000, explanation=explanation)
    if forecast is None:
        return None
    return OrderEstimateView(seconds=forecast.estimate_ms / 1000, explanation=forecast.sentence())


def tasks_view(tasks: ArrayTasks) -> ArrayTasksView:
    """Task indices of a job array by state."""
    return ArrayTasksView(
        waiting=_task_set(tasks.waiting),
        active=_task_set(tasks.active),
        completed=_task_set(tasks.completed),
        failed=_task_set(tasks.failed),
        canceled=_task_set(tasks.canceled),
        max_parallel=tasks.max_parallel,
    )


def _task_set(indices: Intervals) -> TaskSetView:
    return TaskSetView(indices=str(indices), count=len(indices))


def allocated_gpus(state: "State", session: Session) -> tuple[AllocatedGpuView, ...]:
    """GPUs of the newest attempt by rank, held or released; of an external allocation, those it holds now."""
    found = (state.leases.get(LeaseId(kernel.id)) for kernel in state.kernels_in(session))
    leases = [*(lease for lease in found if lease is not None), *state.external_allocations.of(session.id)]
    return of_leases(state, leases) if leases else ()


def of_leases(state: "State", leases: Iterable[Lease]) -> tuple[AllocatedGpuView, ...]:
    """GPUs of leases, whichever slots were requested; devices that the agent no longer has are omitted."""
    used: Counter[tuple[AgentId, DeviceId]] = Counter()
    held: set[tuple[AgentId, DeviceId]] = set()
    for lease in leases:
        layout = state.layouts.get(lease.agent_id)
        for slot, amounts in lease.spec.items():
            if layout is None or not is_accelerator(slot):
                continue
            for device_id, amount in amounts.items():
                used[lease.agent_id, device_id] += amount * budget_cost(slot, device=layout.devices.get(device_id))
                if lease.released_us is None:
                    held.add((lease.agent_id, device_id))
    views = (_view(state, key, units, is_held=key in held) for key, units in used.items())
    return tuple(view for view in views if view is not None)


def _view(state: "State", key: tuple[AgentId, DeviceId], units: int, *, is_held: bool) -> AllocatedGpuView | None:
    agent_id, device_id = key
    device = state.layouts[agent_id].devices.get(device_id)
    if device is None:
        return None
    reading = state.readings.get(key) if is_held else None
    return AllocatedGpuView(
        node_id=state.node_of(agent_id),
        gpu_id=device_id,
        share=units * MILLI // device.budget / MILLI,
        memory_gb=round(device.memory_bytes * units / device.budget / 1e9, 3),
        utilization_pct=None if reading is None else reading.utilization_pct,
    )


def idle_view(state: "State", session: Session) -> IdleNoticeView | None:
    """That a running session does not use its GPUs; None if it does. The open case wins over the open alert."""
    case = state.idle_cases.of(session.id)
    if case is not None and case.is_open and case.attempt == session.attempt and case.action is not IdleAction.OBSERVE:
        at_us = acts_us(case, state.policy.preemption.idle)
        gpus = "GPU" if len(case.gpus) == 1 else f"{len(case.gpus)} GPUs"
        since = "" if case.was_used else ", nor at any time since it started"
        words = f"It has not used its {gpus} for {idle_text(case.idle_us)}{since}."
        if case.step is IdleStep.KEPT:
            words = f"{words} You stated that it is still needed."
        elif at_us is not None:
            what = "ended" if case.action is IdleAction.END else "preempted and queued again"
            words = f"{words} It is {what} as soon as a waiting session starts for it."
        return IdleNoticeView(action=case.action, step=case.step, message=words, acts_at=moment_or_none(at_us))
    alert = next((one for one in state.alert_index.alerts.values() if _is_about(one.rule, one.subject, session)), None)
    if alert is None:
        return None
    return IdleNoticeView(action=IdleAction.OFF, step=None, message=f"{alert.words}.", acts_at=None)


def _is_about(rule: AlertRule, subject: str, session: Session) -> bool:
    return rule is AlertRule.GPU_IDLE and subject == session.id


def room_made_text(case: IdleCase) -> str:
    """Which session had to leave for another one, as a sentence."""
    what = "ended" if case.action is IdleAction.END else "preempted"
    return f"{case.session_id} was {what} for it, because it {case.words()}."
