"""What became of the jobs of a run."""

from dataclasses import dataclass

from aliquot.core.simulation.timeline import Timeline
from aliquot.core.simulation.trace import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Tuples have one entry for each job, in their order."""

    jobs: tuple[Job, ...]
    started_us: tuple[int, ...]
    """The first start."""
    ended_us: tuple[int, ...]
    preemptions: tuple[int, ...]
    """How often each had to make room."""
    lost_ms: tuple[int, ...]
    """How long each ran for work that it then had to do again."""
    capacity_milli: int
    """Of all accelerators of the cluster."""
    timeline: Timeline
