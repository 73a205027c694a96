"""Read models of a preview: what would become of a request if it were submitted now."""

from dataclasses import dataclass
from datetime import datetime

from aliquot_schema.sessions import PreemptionCause
from aliquot_schema.views import FailureView, OrderEstimateView, SlotGrantView, VerdictView


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedKernelView:
    """Where one rank would go, and exactly what it would get there."""

    rank: int
    agent_id: str
    node_id: str
    resource_spec: tuple[SlotGrantView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplacedView:
    """A session that would be asked to make room."""

    session_id: str
    owner: str
    cause: PreemptionCause
    has_run: float | None
    """Seconds that its attempt has run; None before its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPreview:
    """What a pass at this moment would do with a session that is not submitted."""

    revision: int
    """The event number that it was decided on."""
    starts_now: bool
    kernels: tuple[PlannedKernelView, ...]
    """Where it would start now, or at `expected_start`; empty when neither is known. Of a job array, its first task."""
    tasks_starting: int
    """1 for a session that starts now; of a job array, as many tasks as would."""
    queue_position: int | None
    """From 1; None when it would not wait."""
    waits: VerdictView | None
    """Why it would wait, or fail."""
    expected_start: datetime | None
    """When it would start at the latest, where a reservation or the graces of others say so."""
    failure: FailureView | None
    """Why it would fail at once: what it depends on cannot come about any more."""
    displaces: tuple[DisplacedView, ...]
    order_estimate: OrderEstimateView | None
