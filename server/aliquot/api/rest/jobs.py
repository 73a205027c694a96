"""REST operations on sessions: the queue, and lists that include ended ones. `Job` has the fields of a session that
scripts need; texts for people say session."""

from datetime import datetime
from typing import Final, TypeVar

from msgspec import Struct

from aliquot.api.rest.framework import Operation, RestRequest
from aliquot.api.rest.requests import ChangedJob, FilesAsked, MoreTime, NewPriority, Piece, SessionsAsked, SubmitJob
from aliquot_schema.errors import InvalidRequest, NotFound, StateConflict, Unavailable
from aliquot_schema.requests import NewSession, PageRequest, SessionAmendment, SessionFilter, TimeRange
from aliquot_schema.resources.units import decimal_text, duration_seconds
from aliquot_schema.sessions import PRIORITIES, Topology
from aliquot_schema.states import SessionState
from aliquot_schema.views.explanations import ExplanationView
from aliquot_schema.views.forecasts import ForecastAccuracyView, ForecastView
from aliquot_schema.views.results import SessionFilesView, files_view
from aliquot_schema.views.session_parts import FailureView, PreflightView
from aliquot_schema.views.sessions import AllocatedGpuView, SessionView, SlotAmountView, VerdictView
from aliquot_schema.views.statistics import QueueStatisticsView, SessionStatsView

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
    cluster_size_min: int | None
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
    preemptible: bool
    checkpoint_signal: str | None
    checkpoint_every: float | None
    preflight: PreflightView | None
    """The check before its command."""
    topology: Topology
    forecast: ForecastView | None
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


OWN_CHECK: Final = "default"
"""In place of a command: the agent's own check."""
_PLAIN = frozenset(Job.__struct_fields__) - {"job_id", "priority"}


def job_of(view: SessionView) -> Job:
    """A session in the form of these operations."""
    plain = {name: getattr(view, name) for name in _PLAIN}
    return Job(job_id=view.id, priority=view.priority.name.lower(), **plain)


async def list_queue(ask: RestRequest) -> Queue:
    """One page of the queue."""
    context, piece = ask.context, ask.query
    page = context.services.queries.queue(context.caller, PageRequest(first=piece.first, after=piece.after))
    return Queue(
        total_queued=page.total_count,
        jobs=tuple(job_of(entry.session) for entry in page.items),
        next=page.cursors[-1] if page.has_next else None,
        revision=page.revision,
    )


async def submit(ask: RestRequest) -> Job:
    """See `Writer.create_session`."""
    body: SubmitJob = ask.body
    is_text = isinstance(body.command, str)
    request = NewSession(
        argv=None if is_text else tuple(body.command),
        shell=body.command if isinstance(body.command, str) else None,
        slots=ask.external_allocations.gpu_slots(decimal_text(body.gpu_count)),
        cluster_size=body.cluster_size,
        cluster_size_min=body.cluster_size_min,
        gpu_memory_gb=None if body.memory_gb is None else decimal_text(body.memory_gb),
        priority=str(body.priority),
        estimated_duration=duration_seconds(body.estimated_duration, field="estimated_duration"),
        time_limit=duration_seconds(body.time_limit, field="time_limit"),
        max_retries=body.max_retries,
        preemptible=body.preemptible,
        checkpoint_signal=body.checkpoint_signal,
        checkpoint_every=duration_seconds(body.checkpoint_every, field="checkpoint_every"),
        preflight=_check_of(body.preflight),
        preflight_limit=duration_seconds(body.preflight_limit, field="preflight_limit"),
        topology=body.topology,
        name=body.name,
        run_id=body.run_id,
        project=body.project,
        pool=body.pool,
        idempotency_key=ask.idempotency_key,
    )
    return job_of((await ask.context.services.sessions.create_session(ask.context.caller, request)).session)


def _check_of(command: str | list[str] | None) -> tuple[str, ...] | None:
    """A preflight as `NewSession` has it."""
    if isinstance(command, str):
        return () if command == OWN_CHECK else ("/bin/sh", "-c", command)
    return None if command is None else tuple(command) or ("",)


async def cancel(ask: RestRequest) -> Job:
    """See `Writer.cancel_session`."""
    context = ask.context
    return job_of((await context.services.sessions.cancel_session(context.caller, ask.path["job_id"], None)).session)


async def update_priority(ask: RestRequest) -> Job:
    """See `Writer.update_session_priority`."""
    context, body = ask.context, ask.body
    changed = await context.services.sessions.update_session_priority(
        context.caller, ask.path["job_id"], str(body.priority), body.expected_version
    )
    return job_of(changed.session)


async def why(ask: RestRequest) -> ExplanationView:
    """See `Reader.session_why`."""
    found = await ask.context.services.queries.session_why(ask.context.caller, ask.path["job_id"])
    if found is None:
        raise NotFound(f"there is no session {ask.path['job_id'][:80]}", kind="session", id=ask.path["job_id"][:80])
    return found


async def change(ask: RestRequest) -> Job:
    """See `Writer.update_session`."""
    body: ChangedJob = ask.body
    gpus = body.gpu_count
    amendment = SessionAmendment(
        slots=None if gpus is None else ask.external_allocations.gpu_slots(decimal_text(gpus)),
        cluster_size=body.cluster_size,
        time_limit=duration_seconds(body.time_limit, field="time_limit"),
        preemptible=body.preemptible,
        priority=None if body.priority is None else str(body.priority),
        project=body.project,
        pool=body.pool,
        models=body.models,
    )
    context = ask.context
    changed = await context.services.sessions.update_session(
        context.caller, ask.path["job_id"], amendment, body.expected_version
    )
    return job_of(changed.session)


async def extend(ask: RestRequest) -> Job:
    """See `Writer.extend_session`."""
    context, body = ask.context, ask.body
    seconds = duration_seconds(body.time, field="time")
    assert seconds is not None, "the field is required"
    changed = await context.services.sessions.extend_session(
        context.caller, ask.path["job_id"], seconds, body.expected_version
    )
    return job_of(changed.session)


async def statistics(ask: RestRequest) -> QueueStatisticsView:
    """See `Reader.queue_statistics`."""
    return ask.context.services.queries.queue_statistics(ask.context.caller)


async def forecast(ask: RestRequest) -> ForecastView:
    """See `Reader.session`."""
    context, name = ask.context, ask.path["job_id"]
    view = await context.services.queries.session(context.caller, name)
    if view is None:
        raise NotFound(f"there is no session {name[:80]}", kind="session", id=name[:80])
    if view.forecast is None:
        raise StateConflict(f"{name} is {view.state}, and no forecast was made for it", id=name, state=view.state)
    return view.forecast


async def forecast_accuracy(ask: RestRequest) -> ForecastAccuracyView:
    """See `Reader.forecast_accuracy`."""
    return ask.context.services.queries.forecast_accuracy(ask.context.caller)


QUEUE_OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/queue",
        name="queue",
        summary="Waiting sessions in scheduling order.",
        handler=list_queue,
        query=Piece,
        cost_each=40,
    ),
    Operation(
        method="GET",
        path="/queue/statistics",
        name="queue_statistics",
        summary="Length, waiting times and throughput of the queue.",
        handler=statistics,
    ),
    Operation(
        method="GET",
        path="/queue/forecast-accuracy",
        name="forecast_accuracy",
        summary="How accurate forecasts of starts were, by group.",
        handler=forecast_accuracy,
    ),
    Operation(
        method="GET",
        path="/queue/{job_id}/forecast",
        name="forecast",
        summary="When a waiting session is forecast to start and to end.",
        handler=forecast,
        problems=(404, 409),
    ),
    Operation(
        method="POST",
        path="/queue/submit",
        name="queue_submit",
        summary="Submit a session. With a header `Idempotency-Key`, repeating the request makes no second one.",
        handler=submit,
        body=SubmitJob,
        problems=(409,),
        takes_key=True,
    ),
    Operation(
        method="DELETE",
        path="/queue/{job_id}",
        name="queue_cancel",
        summary="Cancel a session that has not ended; a running one is stopped.",
        handler=cancel,
        problems=(404, 409),
    ),
    Operation(
        method="GET",
        path="/queue/{job_id}/why",
        name="queue_why",
        summary="Why a session waits, which ones are ahead of it, and with which changes it would start.",
        handler=why,
        problems=(404,),
    ),
    Operation(
        method="PATCH",
        path="/queue/{job_id}",
        name="queue_change",
        summary="Change the request of a waiting session; it keeps its place in the queue.",
        handler=change,
        body=ChangedJob,
        problems=(404, 409),
    ),
    Operation(
        method="PATCH",
        path="/queue/{job_id}/time-limit",
        name="queue_extend",
        summary="Add time to the limit of a running session, unless another user's or a booking would start later.",
        handler=extend,
        body=MoreTime,
        problems=(404, 409),
    ),
    Operation(
        method="PATCH",
        path="/queue/{job_id}/priority",
        name="queue_priority",
        summary="Change the priority of a session.",
        handler=update_priority,
        body=NewPriority,
        problems=(404, 409),
    ),
)


async def list_sessions(ask: RestRequest) -> Sessions:
    """One page of the matching sessions."""
    context, asked = ask.context, ask.query
    request = PageRequest(first=asked.first, after=asked.after)
    page = await context.services.queries.sessions(context.caller, _filter(asked), asked.order, request)
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
        tags=_one(asked.tag),
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


async def stats(ask: RestRequest) -> SessionStatsView:
    """See `Historian.session_stats`."""
    historian = ask.context.services.history
    if historian is None:
        raise Unavailable("this server does not store history")
    return await historian.session_stats(ask.context.caller, ask.path["job_id"])


async def list_files(ask: RestRequest) -> SessionFilesView:
    """See `FilesPort.listing`."""
    files, asked = ask.context.services.files, ask.query
    if files is None:
        raise Unavailable("this server has no results of sessions")
    session_id = ask.path["job_id"]
    return files_view(session_id, asked.rank, await files.listing(ask.context.caller, session_id, rank=asked.rank))


SESSION_OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/sessions/{job_id}/files",
        name="session_files",
        summary="The files below RESULT_DIR. Each is downloaded, also in ranges, from /sessions/{job_id}/files/PATH.",
        handler=list_files,
        query=FilesAsked,
        problems=(404, 409),
        cost=500,
    ),
    Operation(
        method="GET",
        path="/sessions/{job_id}/stats",
        name="session_stats",
        summary="What a session used of what it held, with one line of advice.",
        handler=stats,
        problems=(404,),
    ),
    Operation(
        method="GET",
        path="/sessions",
        name="sessions",
        summary="Sessions that match all given parameters, ended ones included.",
        handler=list_sessions,
        query=SessionsAsked,
        cost_each=40,
    ),
)
