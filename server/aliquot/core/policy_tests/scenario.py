"""Scenario: the given state, the time to check it, and the expected results; with updates of waiting sessions."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.fairshare import Usage
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow, PendingRow, Request
from aliquot_schema.ids import AgentId, QuotaId, SessionId, task_id
from aliquot_schema.quotas import Quota
from aliquot_schema.states import SessionState

START_US: Final = 1_700_000_000_000_000
"""Start of every scenario, microseconds UTC; an arbitrary time."""


class SmallerRequest(Struct, frozen=True, kw_only=True):
    """A fallback: the request of a session from some time on."""

    at_us: int
    request: Request
    cluster_size: int


class ScenarioJob(Struct, frozen=True, kw_only=True):
    """A session with its real run time."""

    row: PendingRow
    runs_ms: int | None = None
    """None = its planned duration."""
    fallbacks: tuple[SmallerRequest, ...] = ()
    max_parallel: int | None = None
    """Limit on the running tasks of an array; None = all."""
    array_id: SessionId | None = None
    """The array of a task; None = not a task."""


class Running(Struct, frozen=True, kw_only=True):
    """A session that runs at the start."""

    job: ScenarioJob
    on: tuple[AgentId, ...]
    """Its agents; empty = any."""
    since_ms: int
    ends_in_ms: int | None
    """Planned end after the start; None = by its planned duration."""
    preemptions: int
    grace_ms: int | None


class ScenarioStart(Struct, frozen=True, kw_only=True):
    """The state at the start."""

    policy: Policy
    agents: tuple[AgentRow, ...]
    running: tuple[Running, ...]
    queue: tuple[ScenarioJob, ...]
    ended: Mapping[SessionId, SessionState]
    usage: Usage
    quotas: Mapping[QuotaId, Quota]


class ExpectedResults(Struct, frozen=True, kw_only=True):
    """Expected results. None = not checked."""

    starts: tuple[str, ...] | None = None
    """All started sessions, in any order."""
    preempts: tuple[str, ...] | None = None
    """All preempted sessions, in any order."""
    order: tuple[str, ...] | None = None
    """Queue order of these sessions; others may be anywhere between them."""
    waits: Mapping[str, str] | None = None
    """Reason by session; others may wait too."""
    reserved: Mapping[str, str] | None = None
    """Time from the start to the reserved start, by session."""
    on: Mapping[str, tuple[str, ...]] | None = None
    """Agents by rank, by started session."""
    fails: tuple[str, ...] | None = None
    """All failed sessions, in any order."""


class Scenario(Struct, frozen=True, kw_only=True):
    """One scenario of a file."""

    name: str
    file: str
    line: int
    given: ScenarioStart
    after_ms: int
    """When the results are checked; 0 = after one pass."""
    then: ExpectedResults


def task_of(job: ScenarioJob, index: int | None) -> ScenarioJob:
    """One task as a session; the session itself if it is not an array."""
    if index is None:
        return job
    array_id = job.row.session_id
    row = replace(job.row, session_id=task_id(array_id, index=index), tasks=None, tasks_startable=1)
    return replace(job, row=row, array_id=array_id)


def remaining(job: ScenarioJob, index: int | None, *, active: int) -> ScenarioJob | None:
    """What still waits after a start; None = nothing.

    Args:
        active: number of running tasks after the start.
    """
    if index is None or job.row.tasks is None:
        return None
    tasks = job.row.tasks.without(index)
    return with_startable_tasks(replace(job, row=replace(job.row, tasks=tasks)), active=active) if tasks else None


def with_startable_tasks(job: ScenarioJob, *, active: int) -> ScenarioJob:
    """An array with `active` running tasks."""
    waiting = 0 if job.row.tasks is None else len(job.row.tasks)
    most = waiting if job.max_parallel is None else min(waiting, max(job.max_parallel - active, 0))
    return replace(job, row=replace(job.row, tasks_startable=most))


def at_fallback(job: ScenarioJob, level: int) -> ScenarioJob:
    """The session at this level of its fallbacks, counted from 1."""
    smaller, later = job.fallbacks[level - 1], job.fallbacks[level:]
    row = replace(
        job.row,
        request=smaller.request,
        cluster_size=smaller.cluster_size,
        fallback_level=level,
        falls_back_us=later[0].at_us if later else None,
    )
    return replace(job, row=row)
