"""REST operations on jobs: the queue, and lists of sessions including ended ones. A job is a session with the fields
that scripts need."""

from datetime import datetime
from typing import Final, TypeVar

from msgspec import Struct

from aliquot.api.rest.framework import Ask, Operation
from aliquot.api.rest.requests import NewPriority, Piece, SessionsAsked, SubmitJob
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.requests import NewSession, PageRequest, SessionFilter, TimeRange
from aliquot_schema.resources.units import decimal_text, duration_seconds
from aliquot_schema.sessions import PRIORITIES
from aliquot_schema.states import SessionState
from aliquot_schema.views.sessions import AllocatedGpuView, FailureView, SessionView, SlotAmountView, VerdictView
from aliquot_schema.views.statistics import QueueStatisticsView

T = TypeVar("T")


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
    """Fields that this caller may not read; they are empty here."""
    version: int


class Queue(Struct, kw_only=True):
    """Waiting sessions in scheduling order."""

    total_queued: int
    """Sessions; a job array counts once."""
    jobs: tuple[Job, ...]
    next: str | None
    """Cursor for `after`; null at the end."""
    revision: int


class Sessions(Struct, kw_only=True):
    """One page of the matching sessions."""

    total_count: int
    """Over all pages."""
    jobs: tuple[Job, ...]
    next: str | None
    """Cursor for `after` in the same order; null at the end."""
    revision: int


_PLAIN = frozenset(Job.__struct_fields__) - {"job_id", "priority"}


def job_of(view: SessionView) -> Job:
    """A session as a job."""
    plain = {name: getattr(view, name) for name in _PLAIN}
    return Job(job_id=view.id, priority=view.priority.name.lower(), **plain)


async def list_queue(ask: Ask) -> Queue:
    """One page of the queue."""
    context, piece = ask.context, ask.query
    page = context.reader.queue(context.caller, PageRequest(first=piece.first, after=piece.after))
    return Queue(
        total_queued=page.total_count,
        jobs=tuple(job_of(entry.session) for entry in page.items),
        next=page.cursors[-1] if page.has_next else None,
        revision=page.revision,
    )


async def submit(ask: Ask) -> Job:
    """See `Writer.create_session`."""
    body: SubmitJob = ask.body
    is_text = isinstance(body.command, str)
    request = NewSession(
        argv=None if is_text else tuple(body.command),
        shell=body.command if isinstance(body.command, str) else None,
        slots=ask.external_allocations.gpu_slots(decimal_text(body.gpu_count)),
        cluster_size=body.cluster_size,
        gpu_memory_gb=None if body.memory_gb is None else decimal_text(body.memory_gb),
        priority=str(body.priority),
        estimated_duration=duration_seconds(body.estimated_duration, field="estimated_duration"),
        time_limit=duration_seconds(body.time_limit, field="time_limit"),
        max_retries=body.max_retries,
        name=body.name,
        run_id=body.run_id,
        project=body.project,
        pool=body.pool,
        idempotency_key=ask.idempotency_key,
    )
    return job_of((await ask.context.writer.create_session(ask.context.caller, request)).session)


async def cancel(ask: Ask) -> Job:
    """See `Writer.cancel_session`."""
    context = ask.context
    return job_of((await context.writer.cancel_session(context.caller, ask.path["job_id"], None)).session)


async def update_priority(ask: Ask) -> Job:
    """See `Writer.update_session_priority`."""
    context, body = ask.context, ask.body
    changed = await context.writer.update_session_priority(
        context.caller, ask.path["job_id"], str(body.priority), body.expected_version
    )
    return job_of(changed.session)


async def statistics(ask: Ask) -> QueueStatisticsView:
    """See `Reader.queue_statistics`."""
    return ask.context.reader.queue_statistics(ask.context.caller)


QUEUE_OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/queue",
        name="queue",
        summary="Waiting sessions in scheduling order.",
        handler=list_queue,
        answer=Queue,
        query=Piece,
        cost_each=40,
    ),
    Operation(
        method="GET",
        path="/queue/statistics",
        name="queue_statistics",
        summary="Length, waiting times and throughput of the queue.",
        handler=statistics,
        answer=QueueStatisticsView,
    ),
    Operation(
        method="POST",
        path="/queue/submit",
        name="queue_submit",
        summary="Submit a job. With a header `Idempotency-Key`, repeating the request makes no second job.",
        handler=submit,
        answer=Job,
        body=SubmitJob,
        problems=(409,),
        takes_key=True,
    ),
    Operation(
        method="DELETE",
        path="/queue/{job_id}",
        name="queue_cancel",
        summary="Cancel a job that has not ended; a running job is stopped.",
        handler=cancel,
        answer=Job,
        problems=(404, 409),
    ),
    Operation(
        method="PATCH",
        path="/queue/{job_id}/priority",
        name="queue_priority",
        summary="Change the priority of a job.",
        handler=update_priority,
        answer=Job,
        body=NewPriority,
        problems=(404, 409),
    ),
)


async def list_sessions(ask: Ask) -> Sessions:
    """One page of the matching sessions."""
    context, asked = ask.context, ask.query
    request = PageRequest(first=asked.first, after=asked.after)
    page = await context.reader.sessions(context.caller, _filter(asked), asked.order, request)
    return Sessions(
        total_count=page.total_count,
        jobs=tuple(job_of(view) for view in page.items),
        next=page.cursors[-1] if page.has_next else None,
        revision=page.revision,
    )


def _filter(asked: SessionsAsked) -> SessionFilter:
    return SessionFilter(
        states=tuple(dict.fromkeys((*_one(asked.state), *_states(asked.states)))),
        owners=_one(asked.owner),
        projects=_one(asked.project),
        pools=_one(asked.pool),
        priorities=() if asked.priority is None else (PRIORITIES[asked.priority],),
        run_id=asked.run_id,
        name=asked.name,
        search=asked.search,
        array_id=asked.array_id,
        queued_at=_range(asked.queued_since, asked.queued_until),
        started_at=_range(asked.started_since, asked.started_until),
        ended_at=_range(asked.ended_since, asked.ended_until),
        exit_codes=_one(asked.exit_code),
        failures=_one(asked.failure),
        agents=_one(asked.agent_id),
        nodes=_one(asked.node_id),
        devices=_one(asked.device_id),
    )


def _states(text: str | None) -> tuple[SessionState, ...]:
    names = [] if text is None else [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in list(SessionState)]
    if unknown:
        raise InvalidRequest(
            f"states: {unknown[0]!r} is not a state; write states=queued,running with any of {', '.join(SessionState)}",
            field="states",
        )
    return tuple(map(SessionState, names))


def _one(value: T | None) -> tuple[T, ...]:
    return () if value is None else (value,)


def _range(since: datetime | None, until: datetime | None) -> TimeRange:
    return TimeRange(since=since, until=until)


SESSION_OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/sessions",
        name="sessions",
        summary="Sessions that match all given parameters, ended ones included.",
        handler=list_sessions,
        answer=Sessions,
        query=SessionsAsked,
        cost_each=40,
    ),
)
