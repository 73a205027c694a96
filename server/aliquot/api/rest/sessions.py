"""Lists of sessions, ended ones included."""

from datetime import datetime
from typing import Final, TypeVar

from aliquot.api.rest.jobs import Sessions, job_of
from aliquot.api.rest.operations import Ask, Operation
from aliquot.api.rest.requests import SessionsAsked
from aliquot_schema.requests import PageRequest
from aliquot_schema.session_lists import SessionFilter, TimeRange
from aliquot_schema.sessions import Priority

T = TypeVar("T")


async def list_sessions(ask: Ask) -> Sessions:
    """A piece of those that match."""
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
        states=_one(asked.state),
        owners=_one(asked.owner),
        projects=_one(asked.project),
        pools=_one(asked.pool),
        priorities=() if asked.priority is None else (Priority[asked.priority.upper()],),
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


def _one(value: T | None) -> tuple[T, ...]:
    return () if value is None else (value,)


def _range(since: datetime | None, until: datetime | None) -> TimeRange:
    return TimeRange(since=since, until=until)


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/sessions",
        name="sessions",
        summary="Sessions, ended ones included, that have all that is asked for.",
        handler=list_sessions,
        answer=Sessions,
        query=SessionsAsked,
        cost_each=40,
    ),
)
