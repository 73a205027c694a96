"""Traces: what was submitted when, and how long it ran."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from aliquot_schema.ids import ProjectId, SessionId, UserId

SECOND_US: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One submission."""

    id: SessionId
    """In the order of submission, also as text."""
    user: UserId
    project: ProjectId
    submit_us: int
    duration_ms: int
    """How long it runs once it has started, > 0."""
    gpus: int
    """Whole ones, > 0."""
    limit_ms: int | None = None
    """What its user asked for; None = unknown."""


def numbered(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """The jobs by submission, with ids that sort in this order; jobs of one moment stay in the order given."""
    ordered = sorted(jobs, key=lambda job: job.submit_us)
    return tuple(replace(job, id=SessionId(f"{number:08d}")) for number, job in enumerate(ordered))


def window(jobs: Iterable[Job], *, from_s: int, until_s: int) -> tuple[Job, ...]:
    """The jobs submitted in [from_s, until_s)."""
    return tuple(job for job in jobs if from_s * SECOND_US <= job.submit_us < until_s * SECOND_US)


def load(jobs: Iterable[Job], *, gpus: int) -> float:
    """Work per capacity, over the time from the first submission to the last."""
    jobs = tuple(jobs)
    span_us = max(job.submit_us for job in jobs) - min(job.submit_us for job in jobs)
    return sum(job.gpus * job.duration_ms * 1000 for job in jobs) / (span_us * gpus) if span_us else float("inf")
