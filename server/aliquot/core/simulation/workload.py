"""What the jobs of a trace ask of a pool of GPUs in sum."""

from collections.abc import Iterable
from dataclasses import replace

from aliquot.core.simulation.cluster import SHARES, WHOLE
from aliquot.core.simulation.trace import Job
from aliquot.core.snapshot import Request
from aliquot_schema.slots import MILLI


def on_gpus_alone(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """The jobs as they ask a pool of GPUs: nothing but GPUs, of whatever kind and model. Others are left out."""
    return tuple(replace(job, request=_gpus_of(job), gpu_memory_bytes=None, models=()) for job in jobs if job.milli)


def load(jobs: Iterable[Job], *, gpus: int) -> float:
    """Work per capacity, over the time from the first submission to the last."""
    jobs = tuple(jobs)
    span_us = max(job.submit_us for job in jobs) - min(job.submit_us for job in jobs)
    work = sum(job.milli * job.duration_ms for job in jobs) * 1000 / MILLI
    return work / (span_us * gpus) if span_us else float("inf")


def _gpus_of(job: Job) -> Request:
    milli = job.milli // job.cluster_size
    is_whole = milli % MILLI == 0
    return ((WHOLE, milli // MILLI),) if is_whole else ((SHARES, milli),)
