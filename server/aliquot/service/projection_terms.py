"""Projection of values: times, amounts, names, and what a session asked for beside its command."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from signal import Signals
from typing import Final

from aliquot.core.predict import Prediction
from aliquot_schema.intervals import Intervals
from aliquot_schema.sessions import ArrayTasks, Fallback, PreemptionReceipt, SessionSpec
from aliquot_schema.slots import MILLI, format_amount
from aliquot_schema.views import (
    ArrayTasksView,
    FallbackView,
    NameValueView,
    OrderEstimateView,
    PreemptionView,
    TaskSetView,
    slot_amounts,
)

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
GB: Final = 1_000_000_000


def moment(at_us: int) -> datetime:
    """Microseconds UTC as an aware time, exactly."""
    return EPOCH + timedelta(microseconds=at_us)


def microseconds(at: datetime) -> int:
    """An aware time in microseconds UTC, exactly."""
    return (at - EPOCH) // timedelta(microseconds=1)


def moment_or_none(at_us: int | None) -> datetime | None:
    """As `moment`, where there may be none."""
    return None if at_us is None else moment(at_us)


def microseconds_or_none(at: datetime | None) -> int | None:
    """As `microseconds`, where there may be none."""
    return None if at is None else microseconds(at)


def seconds(milliseconds: int | None) -> float | None:
    """Milliseconds as seconds."""
    return None if milliseconds is None else milliseconds / 1000


def gb(size: int) -> str:
    """Bytes as decimal text in 10^9 bytes."""
    whole, rest = divmod(size, GB)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".") if rest else str(whole)


def pairs(mapping: Mapping[str, str]) -> tuple[NameValueView, ...]:
    """Names and values, in order of the names."""
    return tuple(NameValueView(name=name, value=value) for name, value in sorted(mapping.items()))


def signal_name(number: int) -> str:
    """`SIGUSR1`; a real-time signal without a name is shown by its number."""
    return Signals(number).name if number in [int(known) for known in Signals] else str(number)


def fallback_view(fallback: Fallback) -> FallbackView:
    """A smaller request."""
    return FallbackView(
        slots=slot_amounts([(slot, format_amount(slot, amount)) for slot, amount in fallback.slots.items()]),
        cluster_size=fallback.cluster_size,
        gpu_memory_gb=None if fallback.gpu_memory_bytes is None else gb(fallback.gpu_memory_bytes),
        after=fallback.after_ms / 1000,
    )


def preemption_view(receipt: PreemptionReceipt) -> PreemptionView:
    """Who asked a session to make room, why, and what that cost."""
    lost = receipt.lost_ms
    return PreemptionView(
        cause=receipt.cause,
        by_session=receipt.by_session,
        by_user=receipt.by_user,
        at=moment(receipt.at_us),
        until=moment(receipt.until_us),
        lost_gpu_seconds=None if lost is None else lost / MILLI / 1000,
    )


def estimate_view(spec: SessionSpec, forecast: Prediction | None) -> OrderEstimateView | None:
    """How long a session is expected to run: by its owner's word, else by those before it."""
    if spec.estimated_duration_ms is not None:
        return OrderEstimateView(seconds=spec.estimated_duration_ms / 1000, explanation="as its owner estimates")
    if forecast is None:
        return None
    return OrderEstimateView(seconds=forecast.estimate_ms / 1000, explanation=forecast.sentence())


def tasks_view(tasks: ArrayTasks) -> ArrayTasksView:
    """Where the tasks of an array are."""
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
