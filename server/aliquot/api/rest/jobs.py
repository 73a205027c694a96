"""Jobs as scripts see them: sessions, in the fewest fields that say everything."""

from datetime import datetime

from msgspec import Struct

from aliquot_schema.gpu_views import AllocatedGpuView
from aliquot_schema.states import SessionState
from aliquot_schema.views import FailureView, SessionView, SlotAmountView, VerdictView


class Job(Struct, kw_only=True):
    """A session. Times are RFC 3339 in UTC, durations seconds."""

    job_id: str
    run_id: str | None
    name: str | None
    owner: str
    project: str
    pool: str
    command: tuple[str, ...]
    state: SessionState
    priority: str
    slots: tuple[SlotAmountView, ...]
    cluster_size: int
    requested_gpus: float
    requested_memory_gb: str | None
    allocated_gpus: tuple[AllocatedGpuView, ...]
    allocation_time: datetime | None
    queued_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    queue_position: int | None
    estimated_start_time: datetime | None
    estimated_wait_time: float | None
    estimated_duration: float | None
    time_limit: float | None
    scheduling_policy: str
    retry_count: int
    max_retries: int
    exit_code: int | None
    signal: int | None
    failure: FailureView | None
    waits: VerdictView | None
    hidden: tuple[str, ...]
    """What of it is not the caller's to see: these are empty here, whatever they are."""
    version: int


class Queue(Struct, kw_only=True):
    """Those that wait, in the order in which the allocator looks at them."""

    total_queued: int
    """Sessions; a job array is one."""
    jobs: tuple[Job, ...]
    next: str | None
    """For `after`; null at the end."""
    revision: int


class Sessions(Struct, kw_only=True):
    """A piece of those that match."""

    total_count: int
    """Of all pieces."""
    jobs: tuple[Job, ...]
    next: str | None
    """For `after`, in the same order; null at the end."""
    revision: int


_PLAIN = frozenset(Job.__struct_fields__) - {"job_id", "priority"}


def job_of(view: SessionView) -> Job:
    """A session as a job."""
    plain = {name: getattr(view, name) for name in _PLAIN}
    return Job(job_id=view.id, priority=view.priority.name.lower(), **plain)
