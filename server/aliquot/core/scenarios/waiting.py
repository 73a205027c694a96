"""What waits of a session as a scenario goes on: the tasks of an array that are left, and what it asks for by now."""

from dataclasses import replace

from aliquot.core.scenarios.given import Job
from aliquot_schema.ids import task_id


def task_of(job: Job, index: int | None) -> Job:
    """One task as a session by itself; the session itself where it is no array."""
    if index is None:
        return job
    array_id = job.row.session_id
    row = replace(job.row, session_id=task_id(array_id, index=index), tasks=None, tasks_startable=1)
    return replace(job, row=row, array_id=array_id)


def left_of(job: Job, index: int | None, *, active: int) -> Job | None:
    """What waits once this has started; None = nothing.

    Args:
        active: how many tasks run then.
    """
    if index is None or job.row.tasks is None:
        return None
    tasks = job.row.tasks.without(index)
    return free_to_start(replace(job, row=replace(job.row, tasks=tasks)), active=active) if tasks else None


def free_to_start(job: Job, *, active: int) -> Job:
    """An array of which so many tasks run."""
    waiting = 0 if job.row.tasks is None else len(job.row.tasks)
    most = waiting if job.max_parallel is None else min(waiting, max(job.max_parallel - active, 0))
    return replace(job, row=replace(job.row, tasks_startable=most))


def asking_for_less(job: Job, level: int) -> Job:
    """The session at this level of its fallbacks, counted from 1."""
    less, later = job.fallbacks[level - 1], job.fallbacks[level:]
    row = replace(
        job.row,
        request=less.request,
        cluster_size=less.cluster_size,
        fallback_level=level,
        falls_back_us=later[0].at_us if later else None,
    )
    return replace(job, row=row)
