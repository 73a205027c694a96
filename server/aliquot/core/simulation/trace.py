"""Traces: submitted jobs with their requests and run times, and which of them fit a cluster."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.allocation.options import AllocationOptions
from aliquot.core.model.snapshot import AgentRow, Request, request_milli
from aliquot.core.scheduler.feasibility import kernels_when_empty
from aliquot.core.simulation.cluster import SHARES, WHOLE
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import ProjectId, SessionId, UserId
from aliquot_schema.resources.slots import MILLI, format_amount
from aliquot_schema.sessions import Priority

SECOND_US: Final = 1_000_000
Kind = tuple[Request, int, int | None, tuple[str, ...]]


class Job(Struct, frozen=True, kw_only=True):
    """One submission."""

    id: SessionId
    """Ids sort in the order of submission, also as text."""
    user: UserId
    project: ProjectId
    submit_us: int
    duration_ms: int
    """Run time, > 0."""
    request: Request
    """Request per kernel; not empty."""
    cluster_size: int = 1
    limit_ms: int | None = None
    """Time limit of its user; None = unknown."""
    priority: Priority = Priority.NORMAL
    preemptible: bool = False
    gpu_memory_bytes: int | None = None
    models: tuple[str, ...] = ()
    """Patterns that the models of its accelerators must match; empty = any."""
    program: str | None = None
    """Program name, for predictions; None = unknown."""

    @property
    def milli(self) -> int:
        """Accelerators of all of its kernels."""
        return request_milli(self.request) * self.cluster_size


def gpu_request(milli: int) -> Request:
    """The request for a part of one GPU, or for whole GPUs.

    Raises:
        ValueError: it is neither.
    """
    if milli < MILLI:
        return ((SHARES, milli),)
    if milli % MILLI:
        raise ValueError(f"{milli / MILLI:g} GPUs cannot be requested; give less than 1, or a whole number")
    return ((WHOLE, milli // MILLI),)


def numbered(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """The jobs sorted by submission, with ids in this order; the sort is stable."""
    ordered = sorted(jobs, key=lambda job: job.submit_us)
    return tuple(replace(job, id=SessionId(f"{number:08d}")) for number, job in enumerate(ordered))


def window(jobs: Iterable[Job], *, from_s: int, until_s: int) -> tuple[Job, ...]:
    """The jobs submitted in [from_s, until_s)."""
    return tuple(job for job in jobs if from_s * SECOND_US <= job.submit_us < until_s * SECOND_US)


def on_gpus_alone(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """The jobs with their GPUs alone, of any kind and model; jobs without GPUs are left out."""
    return tuple(replace(job, request=_gpus_of(job), gpu_memory_bytes=None, models=()) for job in jobs if job.milli)


def in_gangs(jobs: Iterable[Job], *, gpus_each: int) -> tuple[Job, ...]:
    """The jobs with kernels that are wider than a node as gangs: the fewest equal kernels that fit a node.

    20 GPUs on nodes with 8 become 4 kernels with 5.

    Args:
        jobs: with GPUs alone, see `on_gpus_alone`.
    """
    return tuple(_in_gang(job, gpus_each) if job.milli > gpus_each * MILLI * job.cluster_size else job for job in jobs)


def _in_gang(job: Job, gpus_each: int) -> Job:
    gpus = job.milli // job.cluster_size // MILLI
    kernels = next(count for count in range(-(-gpus // gpus_each), gpus + 1) if gpus % count == 0)
    return replace(job, request=gpu_request(gpus // kernels * MILLI), cluster_size=job.cluster_size * kernels)


def load(jobs: Iterable[Job], *, gpus: int) -> float:
    """Work / capacity, over the time from the first submission to the last."""
    jobs = tuple(jobs)
    span_us = max(job.submit_us for job in jobs) - min(job.submit_us for job in jobs)
    work = sum(job.milli * job.duration_ms for job in jobs) * 1000 / MILLI
    return work / (span_us * gpus) if span_us else float("inf")


def _gpus_of(job: Job) -> Request:
    milli = job.milli // job.cluster_size
    is_whole = milli % MILLI == 0
    return ((WHOLE, milli // MILLI),) if is_whole else ((SHARES, milli),)


def fitting(
    jobs: Iterable[Job], agents: Sequence[AgentRow], options: AllocationOptions
) -> tuple[tuple[Job, ...], tuple[Job, ...]]:
    """Split the jobs into those that fit the empty cluster and those that do not."""
    known: dict[Kind, bool] = {}
    parts: tuple[list[Job], list[Job]] = ([], [])
    for job in jobs:
        kind = (job.request, job.cluster_size, job.gpu_memory_bytes, job.models)
        if kind not in known:
            known[kind] = _fits(job, agents, options)
        parts[not known[kind]].append(job)
    return tuple(parts[0]), tuple(parts[1])


def refuse_unfitting(jobs: Iterable[Job], agents: Sequence[AgentRow], options: AllocationOptions) -> None:
    """Check that every job fits the empty cluster.

    Raises:
        InvalidRequest: a job does not; the message contains its request.
    """
    _, unfitting = fitting(jobs, agents, options)
    if unfitting:
        raise InvalidRequest(
            f"{len(unfitting)} jobs do not fit the empty cluster; the first one asks for {_words(unfitting[0])}"
        )


def _fits(job: Job, agents: Sequence[AgentRow], options: AllocationOptions) -> bool:
    options = replace(options, gpu_memory_bytes=job.gpu_memory_bytes, models=job.models)
    most = job.cluster_size
    return kernels_when_empty(agents, job.request, options, most=most, repaired=False) == most


def _words(job: Job) -> str:
    amounts = ", ".join(f"{format_amount(slot, amount)} {slot}" for slot, amount in job.request)
    kernels = f" for each of {job.cluster_size} kernels" if job.cluster_size > 1 else ""
    return f"{amounts}{kernels}{' on ' + ' or '.join(job.models) if job.models else ''}"
