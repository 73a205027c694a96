"""What a session went through, step by step."""

from datetime import datetime
from typing import Annotated

import strawberry
from strawberry.types import Info

from aliquot_schema.graphql.audit_types import UncountedConnection, uncounted
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.descriptions import argument
from aliquot_schema.graphql.enums import SessionState
from aliquot_schema.graphql.paging import PAGE_DEFAULT, After, First, page_of
from aliquot_schema.graphql.roots import root_field
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.graphql.sessions import Preemption
from aliquot_schema.step_views import SessionStepView


@strawberry.type(description="A move of a session, as it was committed.")
class SessionStep:
    number: BigInt = strawberry.field(description="Of the event; rises from step to step.")
    at: datetime = strawberry.field(description="When it was committed.")
    kind: str = strawberry.field(description="What happened: `session.queued`, `session.requeued`, ...")
    state: SessionState = strawberry.field(description="Where it was from then on.")
    attempt: int = strawberry.field(description="Its tries so far; 0 before the first.")
    held_by: str | None = strawberry.field(description="Who held it back from then on.")
    preemption: Preemption | None = strawberry.field(
        description="The last time, by then, that it was asked to make room."
    )


@strawberry.type
class SessionStepQueries:
    @root_field(
        UncountedConnection[SessionStep],
        "What a session went through, the newest step first, as far back as the event log is kept.",
    )
    async def session_steps(
        self,
        info: Info[Context, None],
        id: Annotated[strawberry.ID, argument("The session.")],
        first: First = PAGE_DEFAULT,
        after: After = None,
    ) -> UncountedConnection[SessionStepView]:
        context = info.context
        return uncounted(await context.reader.session_steps(context.caller, id, page_of(first, after)))
