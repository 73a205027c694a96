"""Which jobs of a trace could run at all on a cluster."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from aliquot.core.allocation.options import AllocationOptions
from aliquot.core.feasibility import kernels_when_empty
from aliquot.core.simulation.trace import Job
from aliquot.core.snapshot import AgentRow, Request
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.slots import format_amount

Kind = tuple[Request, int, int | None, tuple[str, ...]]


def fitting(
    jobs: Iterable[Job], agents: Sequence[AgentRow], options: AllocationOptions
) -> tuple[tuple[Job, ...], tuple[Job, ...]]:
    """Part the jobs into those that fit the cluster when it is empty, and those that do not."""
    known: dict[Kind, bool] = {}
    parts: tuple[list[Job], list[Job]] = ([], [])
    for job in jobs:
        kind = (job.request, job.cluster_size, job.gpu_memory_bytes, job.models)
        if kind not in known:
            known[kind] = _fits(job, agents, options)
        parts[not known[kind]].append(job)
    return tuple(parts[0]), tuple(parts[1])


def refuse_unfitting(jobs: Iterable[Job], agents: Sequence[AgentRow], options: AllocationOptions) -> None:
    """Make sure that every job could run.

    Raises:
        InvalidRequest: one could not; the message shows what it asks for.
    """
    _, unfitting = fitting(jobs, agents, options)
    if unfitting:
        raise InvalidRequest(
            f"{len(unfitting)} jobs would not fit the cluster even when it is empty; the first one asks for "
            f"{_words(unfitting[0])}"
        )


def _fits(job: Job, agents: Sequence[AgentRow], options: AllocationOptions) -> bool:
    options = replace(options, gpu_memory_bytes=job.gpu_memory_bytes, models=job.models)
    most = job.cluster_size
    return kernels_when_empty(agents, job.request, options, most=most, repaired=False) == most


def _words(job: Job) -> str:
    amounts = ", ".join(f"{format_amount(slot, amount)} {slot}" for slot, amount in job.request)
    kernels = f" for each of {job.cluster_size} kernels" if job.cluster_size > 1 else ""
    return f"{amounts}{kernels}{' on ' + ' or '.join(job.models) if job.models else ''}"
