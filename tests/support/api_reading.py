"""A schema of the server's types with root fields without arguments, over read models that may be odd."""

from random import Random
from typing import Any

import strawberry
from graphql.execution import Executor
from msgspec.structs import replace
from strawberry.schema.config import StrawberryConfig
from strawberry.types import Info

import api_views as views
from aliquot_schema.graphql import errors
from aliquot_schema.graphql.cluster.agents import Agent
from aliquot_schema.graphql.enums import SnakeNames
from aliquot_schema.graphql.fields import root_field
from aliquot_schema.graphql.mutations import CreateSessionsResult
from aliquot_schema.graphql.pagination import Connection, connection_of
from aliquot_schema.graphql.queries import QueueEntry, QueueUpdate
from aliquot_schema.graphql.scalars import SCALARS
from aliquot_schema.graphql.workloads.previews import SessionPreview
from aliquot_schema.graphql.workloads.sessions import Session
from aliquot_schema.requests import SessionChanged, SessionsCreated
from aliquot_schema.states import SessionState
from aliquot_schema.views.sessions import Page, QueueEntryView, QueueUpdateView
from api_odd_values import spoiled

SESSIONS = [views.session(1), views.session(2, SessionState.RUNNING), views.failed(3)]


class Readings:
    """The root fields' answers; made for each execution, since an iterator can be read once."""

    def __init__(self, seed: int, *, share: float) -> None:
        self._random = Random(seed)
        self._share = share

    def page(self, *items: Any) -> Any:
        """A page of read models."""
        found = tuple(self.of(item) for item in items)
        page = Page(
            items=found,
            cursors=tuple("abc"[: len(found)]),
            has_next=False,
            has_previous=False,
            total_count=len(found),
            revision=7,
        )
        return connection_of(page)

    def of(self, view: Any) -> Any:
        """One read model."""
        return spoiled(view, self._random, share=self._share)


@strawberry.type
class Query:
    @root_field(Connection[Agent], "Agents.")
    async def agents(self, info: Info[Readings, None]) -> Any:
        return info.context.page(views.agent(1), replace(views.agent(2), devices=(views.device(0, views.holder()),)))

    @root_field(Connection[Session], "Sessions.")
    def sessions(self, info: Info[Readings, None]) -> Any:
        return info.context.page(*SESSIONS)

    @root_field(Connection[QueueEntry], "The queue.")
    async def queue(self, info: Info[Readings, None]) -> Any:
        return info.context.page(*(QueueEntryView(position=at, session=one) for at, one in enumerate(SESSIONS, 1)))

    @root_field(Session | None, "One session.")
    def session(self, info: Info[Readings, None]) -> Any:
        return info.context.of(SESSIONS[0])

    @root_field(list[list[Session | None]] | None, "Sessions in lists.")
    async def groups(self, info: Info[Readings, None]) -> Any:
        return [[info.context.of(one), None] for one in SESSIONS]

    @root_field(list[CreateSessionsResult], "Members of a union.")
    async def answers(self, info: Info[Readings, None]) -> Any:
        changed = [SessionChanged(session=one, revision=8, created=True) for one in SESSIONS]
        created = SessionsCreated(results=tuple(changed), revision=9)
        return [info.context.of(one) for one in (created, *_errors())]

    @root_field(list[errors.Error | None], "Implementations of an interface.")
    def failures(self, info: Info[Readings, None]) -> Any:
        return (*map(info.context.of, _errors()), None, 5)

    @root_field(QueueUpdate, "A change.")
    async def update(self, info: Info[Readings, None]) -> Any:
        update = QueueUpdateView(
            event_number=2**40, at=views.MOMENT, kind="session.queued", session=SESSIONS[0], pending=1
        )
        return info.context.of(update)

    @root_field(SessionPreview, "A preview.")
    async def preview(self, info: Info[Readings, None]) -> Any:
        return info.context.of(views.preview())


def reading_schema(executor: type[Executor[Any]] | None = None) -> strawberry.Schema:
    """The schema with this executor."""
    return strawberry.Schema(
        query=Query,
        types=[type(error) for error in _errors()],
        execution_context_class=executor,
        config=StrawberryConfig(name_converter=SnakeNames(), scalar_map=SCALARS),
    )


def _errors() -> list[errors.Error]:
    return [
        errors.InvalidRequest(code="invalid_request", message="no", field=None),
        errors.UnknownSlot(code="unknown_slot", message="no", slot="gpu", known=["cpu", "mem"]),
        errors.InsufficientResource(code="insufficient", message="no", slot="cpu", requested="2", available="1"),
        errors.Forbidden(code="forbidden", message="no"),
    ]
