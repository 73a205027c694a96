"""GraphQL API of changes of several sessions, each carried out or refused by itself."""

from typing import Annotated, Final

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema import requests
from aliquot_schema.graphql import errors
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.enums import SessionAction
from aliquot_schema.graphql.errors import ALWAYS, answer, union
from aliquot_schema.graphql.fields import argument, optional, root_field
from aliquot_schema.graphql.scalars import AnyPriority, BigInt
from aliquot_schema.graphql.workloads.sessions import Session
from aliquot_schema.requests import SessionsAction


@strawberry.input(description="An action on several sessions.")
class ChangeSessionsInput:
    ids: list[strawberry.ID] = strawberry.field(
        description="At most 1000 sessions, or tasks of job arrays as `<array>_<index>`. A repeated id counts once."
    )
    action: SessionAction = strawberry.field(description="What to do with each of them.")
    priority: AnyPriority | None = optional("The new priority; only for `set_priority`.")
    from_checkpoint: bool = strawberry.field(
        default=False, description="For `retry`: start from the last acknowledged checkpoint, as in `retry_session`."
    )

    def to_request(self) -> SessionsAction:
        """The input as a request."""
        return SessionsAction(
            ids=tuple(self.ids),
            action=self.action,
            priority=None if self.priority is None else self.priority.name.lower(),
            from_checkpoint=self.from_checkpoint,
        )


@strawberry.type(description="The outcome for one session of the request: changed, or refused.")
class SessionOutcome:
    id: strawberry.ID = strawberry.field(description="The id in the request.")
    session: Session | None = strawberry.field(
        description="The session after the change, or the array if the task has no session of its own. Null if it was "
        "refused."
    )
    code: str | None = strawberry.field(description="Code of the error, as in `Error`; null if it was carried out.")
    message: str | None = strawberry.field(description="Message for the user; null if it was carried out.")


@strawberry.type(description="The action was tried on each session; `results` says where it was refused.")
class ChangeSessionsSuccess:
    results: list[SessionOutcome] = strawberry.field(description="In the order of the request.")
    refused: int = strawberry.field(description="How many were refused.")
    revision: BigInt = strawberry.field(description="Event number of the last change; for `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, requests.SessionOutcomes)


ChangeSessionsResult: Final = union("ChangeSessionsResult", ChangeSessionsSuccess, *ALWAYS)


@strawberry.type
class BulkChangeMutations:
    @root_field(
        ChangeSessionsResult,
        "Cancel, hold, release, keep or retry several sessions, or change their priority. Each is changed or refused "
        "by itself: a session that has ended does not stop the others.",
    )
    async def change_sessions(
        self,
        info: Info[Context, None],
        input: Annotated[ChangeSessionsInput, argument("The sessions, and what to do.")],
    ) -> requests.SessionOutcomes | errors.Error:
        context = info.context
        return await answer(context.services.sessions.change_sessions(context.caller, input.to_request()), ALWAYS)
