"""Traces: what was submitted when, what it asked for, and how long it ran."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from aliquot.core.simulation.cluster import SHARES, WHOLE
from aliquot.core.snapshot import Request, milli_of
from aliquot_schema.ids import ProjectId, SessionId, UserId
from aliquot_schema.sessions import Priority
from aliquot_schema.slots import MILLI

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
    request: Request
    """Of each kernel; not empty."""
    cluster_size: int = 1
    limit_ms: int | None = None
    """What its user asked for; None = unknown."""
    priority: Priority = Priority.NORMAL
    preemptible: bool = False
    gpu_memory_bytes: int | None = None
    models: tuple[str, ...] = ()
    """Models of accelerators that it may have, as patterns; empty = any."""
    program: str | None = None
    """What tells its command from its user's others, for predictions; None = unknown."""

    @property
    def milli(self) -> int:
        """Of accelerators, by all of its kernels."""
        return sum(amount * milli_of(slot) for slot, amount in self.request) * self.cluster_size


def gpu_request(milli: int) -> Request:
    """A part of one GPU, or whole ones.

    Raises:
        ValueError: neither.
    """
    if milli < MILLI:
        return ((SHARES, milli),)
    if milli % MILLI:
        raise ValueError(f"{milli / MILLI:g} GPUs are neither a part of one nor whole ones")
    return ((WHOLE, milli // MILLI),)


def numbered(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """The jobs by submission, with ids that sort in this order; jobs of one moment stay in the order given."""
    ordered = sorted(jobs, key=lambda job: job.submit_us)
    return tuple(replace(job, id=SessionId(f"{number:08d}")) for number, job in enumerate(ordered))


def window(jobs: Iterable[Job], *, from_s: int, until_s: int) -> tuple[Job, ...]:
    """The jobs submitted in [from_s, until_s)."""
    return tuple(job for job in jobs if from_s * SECOND_US <= job.submit_us < until_s * SECOND_US)
