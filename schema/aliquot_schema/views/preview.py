"""Read models of previews and external allocations.

A preview is the result a request would have if it were submitted now. An external allocation holds GPUs for processes
that Aliquot does not start.
"""

from datetime import datetime
from typing import Final

from msgspec import Struct

from aliquot_schema.sessions import PreemptionCause
from aliquot_schema.views.billing import CostView
from aliquot_schema.views.right_size import RightSizeView
from aliquot_schema.views.session_parts import FailureView
from aliquot_schema.views.sessions import (
    AllocatedGpuView,
    OrderEstimateView,
    SlotAmountView,
    SlotGrantView,
    VerdictView,
)


class PlannedKernelView(Struct, frozen=True, kw_only=True):
    """Agent and allocation that one rank would get."""

    rank: int
    agent_id: str
    node_id: str
    resource_spec: tuple[SlotGrantView, ...]


class DisplacedView(Struct, frozen=True, kw_only=True):
    """A session that would be preempted."""

    session_id: str
    owner: str
    cause: PreemptionCause
    has_run: float | None
    """Run time of its attempt in seconds; None = not started."""


class SessionPreview(Struct, frozen=True, kw_only=True):
    """Decision that a scheduling pass would take now on a session that is not submitted."""

    revision: int
    """Number of the last event of the snapshot."""
    slots: tuple[SlotAmountView, ...]
    """Request per kernel, with the CPUs and memory that the pool gives with each GPU."""
    starts_now: bool
    kernels: tuple[PlannedKernelView, ...]
    """Placement now, or at `expected_start`; empty if unknown. For a job array, of its first task."""
    tasks_starting: int
    """Number of tasks that would start now; 1 for a single session that starts."""
    queue_position: int | None
    """From 1; None = it would not wait."""
    waits: VerdictView | None
    """Why it would wait, or fail."""
    expected_start: datetime | None
    """Latest start, derived from a reservation or from grace periods of preempted sessions; None = unknown."""
    failure: FailureView | None
    """Why it would fail immediately: a dependency can no longer be met."""
    displaces: tuple[DisplacedView, ...]
    order_estimate: OrderEstimateView | None
    estimated_start: datetime | None = None
    """Without `expected_start`: when it would start if all sessions keep to their limits and estimates; no promise.
    None = unknown."""
    right_size: RightSizeView | None = None
    """What the last runs of its command needed; None = too few are known."""
    cost: CostView | None = None
    """None = no prices, or no accelerators."""


LEASE_S: Final = 3600.0
"""Default lease time of an external allocation, in seconds."""


class NewExternalAllocation(Struct, frozen=True, kw_only=True):
    """Request for an external allocation, not validated."""

    job_id: str
    gpu_count: str
    """Decimal text: whole GPUs, or shares of them."""
    memory_gb: str | None = None
    """Minimum memory per GPU."""
    lease: float | None = None
    """Lease time in seconds; None = `LEASE_S`."""
    time_limit: float | None = None
    """Seconds after the grant at which it ends, however often it is renewed; None = no limit."""
    project: str | None = None
    pool: str | None = None


class BlockerView(Struct, frozen=True, kw_only=True):
    """A session that holds what the request needs, or that is ahead of it."""

    session_id: str
    user: str
    name: str | None
    until: datetime | None
    """Expected release; None = unknown."""


class ExternalAllocationView(Struct, frozen=True, kw_only=True):
    """An external allocation."""

    job_id: str
    session_id: str
    gpu_ids: tuple[str, ...]
    """For `CUDA_VISIBLE_DEVICES`."""
    gpus: tuple[AllocatedGpuView, ...]
    expires_at: datetime | None
    """End of the lease unless it is renewed; None = released."""
    renewed: bool
    """Whether another call had allocated the GPUs: an earlier one, whose lease this call renews, or one at the same
    moment."""
    revision: int
