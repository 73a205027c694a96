"""One job on its way: its place in the queue, its tries, and what of its work is kept."""

from dataclasses import dataclass, replace

from aliquot.core.simulation.trace import Job
from aliquot.core.snapshot import PendingRow, RunningRow


@dataclass(slots=True, kw_only=True)
class Course:
    """One job from its submission on. Times are microseconds."""

    job: Job
    row: PendingRow
    started_us: int | None = None
    """The first start."""
    ended_us: int | None = None
    kept_ms: int = 0
    """Work that it need not do again."""
    lost_ms: int = 0
    preemptions: int = 0


@dataclass(slots=True, kw_only=True)
class Attempt:
    """A job that runs."""

    course: Course
    row: RunningRow
    began_us: int
    done_us: int
    """When all of its work would be done."""
    ends_us: int
    """When it gives its devices back: then, or before."""
    evicted_us: int | None = None

    def evict(self, now_us: int, *, grace_ms: int) -> None:
        """Ask it to make room."""
        self.evicted_us = now_us
        self.ends_us = min(self.done_us, now_us + grace_ms * 1000)
        self.row = replace(self.row, ends_us=self.ends_us, is_leaving=True)

    def stop(self, *, checkpoint_ms: int | None) -> None:
        """Count what is lost when it ends before its work is done, and send it back to the queue.

        What it does in its grace is lost: it is given to save what was done before.
        """
        assert self.evicted_us is not None, "only those who were asked to end before their time"
        course = self.course
        worked_ms = course.kept_ms + (self.evicted_us - self.began_us) // 1000
        kept_ms = worked_ms // checkpoint_ms * checkpoint_ms if checkpoint_ms else 0
        course.lost_ms += (self.ends_us - self.began_us) // 1000 - (kept_ms - course.kept_ms)
        course.kept_ms = kept_ms
        course.preemptions += 1
        course.row = replace(course.row, version=course.row.version + 1)
