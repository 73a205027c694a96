"""Mutations. What the caller can get wrong is a member of the result's union, never an entry of `errors`."""

from typing import Annotated, Final

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.graphql import errors
from aliquot_schema.graphql.accounts import AccountMutations
from aliquot_schema.graphql.administration import AdministrationMutations
from aliquot_schema.graphql.answers import ALWAYS, ON_CREATE, answer, union
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.copies import CopyMutations
from aliquot_schema.graphql.doctor import DoctorMutations
from aliquot_schema.graphql.inputs import (
    CancelSessionInput,
    ChangeSessionInput,
    CreateSessionInput,
    CreateSessionsInput,
    UpdateSessionPriorityInput,
)
from aliquot_schema.graphql.notices import NoticeMutations
from aliquot_schema.graphql.orchestrator import OrchestratorMutations
from aliquot_schema.graphql.outside import OutsideMutations
from aliquot_schema.graphql.roots import root_field
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.graphql.secrets import SecretMutations
from aliquot_schema.graphql.sessions import Session
from aliquot_schema.requests import SessionChanged, SessionsCreated

_ON_CHANGE: Final[tuple[type[errors.Error], ...]] = (
    *ALWAYS,
    errors.NotFound,
    errors.StateConflict,
    errors.VersionConflict,
)


class _OfSessionChanged:
    """The service answers with a read model, not with an instance of the GraphQL type."""

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, SessionChanged)


@strawberry.type(description="The session was accepted, and is durable.")
class CreateSessionSuccess(_OfSessionChanged):
    session: Session = strawberry.field(description="The session.")
    revision: BigInt = strawberry.field(description="Its event's number; for `min_revision`.")
    created: bool = strawberry.field(description="False when the idempotency key answered with an earlier one.")


@strawberry.type(description="The session is canceled; its devices stay held until its processes are gone.")
class CancelSessionSuccess(_OfSessionChanged):
    session: Session = strawberry.field(description="The session.")
    revision: BigInt = strawberry.field(description="Its event's number; for `min_revision`.")


@strawberry.type(description="The session has the new priority.")
class UpdateSessionPrioritySuccess(_OfSessionChanged):
    session: Session = strawberry.field(description="The session.")
    revision: BigInt = strawberry.field(description="Its event's number; for `min_revision`.")


@strawberry.type(description="A session of a batch.")
class CreatedSession:
    session: Session = strawberry.field(description="The session.")
    created: bool = strawberry.field(description="False when its idempotency key answered with an earlier one.")


@strawberry.type(description="All of these sessions were accepted, and are durable.")
class CreateSessionsSuccess:
    results: list[CreateSessionSuccess] = strawberry.field(description="In the order in which they were given.")
    revision: BigInt = strawberry.field(description="For `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, SessionsCreated)


@strawberry.type(description="The session is held back.")
class HoldSessionSuccess(_OfSessionChanged):
    session: Session = strawberry.field(description="The session.")
    revision: BigInt = strawberry.field(description="Its event's number; for `min_revision`.")


@strawberry.type(description="The session waits in the queue again, in its place.")
class ReleaseSessionSuccess(_OfSessionChanged):
    session: Session = strawberry.field(description="The session.")
    revision: BigInt = strawberry.field(description="Its event's number; for `min_revision`.")


@strawberry.type(description="The session waits to run again.")
class RetrySessionSuccess(_OfSessionChanged):
    session: Session = strawberry.field(description="The session.")
    revision: BigInt = strawberry.field(description="Its event's number; for `min_revision`.")


CreateSessionResult = union("CreateSessionResult", CreateSessionSuccess, *ON_CREATE)
CreateSessionsResult = union("CreateSessionsResult", CreateSessionsSuccess, *ON_CREATE)
HoldSessionResult = union("HoldSessionResult", HoldSessionSuccess, *_ON_CHANGE)
ReleaseSessionResult = union("ReleaseSessionResult", ReleaseSessionSuccess, *_ON_CHANGE)
RetrySessionResult = union("RetrySessionResult", RetrySessionSuccess, *_ON_CHANGE)
CancelSessionResult = union("CancelSessionResult", CancelSessionSuccess, *_ON_CHANGE)
UpdateSessionPriorityResult = union("UpdateSessionPriorityResult", UpdateSessionPrioritySuccess, *_ON_CHANGE)


@strawberry.type(description="Changes. Each answers after it is durable.")
class Mutation(
    AccountMutations,
    AdministrationMutations,
    CopyMutations,
    DoctorMutations,
    NoticeMutations,
    OrchestratorMutations,
    OutsideMutations,
    SecretMutations,
):
    @root_field(CreateSessionResult, "Submit a session.")
    async def create_session(
        self,
        info: Info[Context, None],
        input: Annotated[CreateSessionInput, strawberry.argument(description="What to run, with what.")],
    ) -> SessionChanged | errors.Error:
        context = info.context
        return await answer(context.writer.create_session(context.caller, input.to_request()), ON_CREATE)

    @root_field(CreateSessionsResult, "Submit sessions that may wait for each other: all of them or none.")
    async def create_sessions(
        self,
        info: Info[Context, None],
        input: Annotated[CreateSessionsInput, strawberry.argument(description="The sessions.")],
    ) -> SessionsCreated | errors.Error:
        context = info.context
        requests = [item.to_request() for item in input.sessions]
        return await answer(context.writer.create_sessions(context.caller, requests), ON_CREATE)

    @root_field(HoldSessionResult, "Hold back a session that waits.")
    async def hold_session(
        self,
        info: Info[Context, None],
        input: Annotated[ChangeSessionInput, strawberry.argument(description="Which one.")],
    ) -> SessionChanged | errors.Error:
        context = info.context
        return await answer(context.writer.hold_session(context.caller, input.id, input.expected_version), _ON_CHANGE)

    @root_field(ReleaseSessionResult, "Let go a session that is held back.")
    async def release_session(
        self,
        info: Info[Context, None],
        input: Annotated[ChangeSessionInput, strawberry.argument(description="Which one.")],
    ) -> SessionChanged | errors.Error:
        context = info.context
        return await answer(
            context.writer.release_session(context.caller, input.id, input.expected_version), _ON_CHANGE
        )

    @root_field(
        RetrySessionResult,
        "Run a session again that has ended. Of a job array the tasks that failed or were canceled, else all.",
    )
    async def retry_session(
        self,
        info: Info[Context, None],
        input: Annotated[ChangeSessionInput, strawberry.argument(description="Which one.")],
    ) -> SessionChanged | errors.Error:
        context = info.context
        return await answer(context.writer.retry_session(context.caller, input.id, input.expected_version), _ON_CHANGE)

    @root_field(CancelSessionResult, "Cancel a session that has not ended; of a job array, all of its tasks.")
    async def cancel_session(
        self,
        info: Info[Context, None],
        input: Annotated[CancelSessionInput, strawberry.argument(description="Which one.")],
    ) -> SessionChanged | errors.Error:
        context = info.context
        return await answer(context.writer.cancel_session(context.caller, input.id, input.expected_version), _ON_CHANGE)

    @root_field(UpdateSessionPriorityResult, "Give a session another priority.")
    async def update_session_priority(
        self,
        info: Info[Context, None],
        input: Annotated[UpdateSessionPriorityInput, strawberry.argument(description="Which one, and how urgent.")],
    ) -> SessionChanged | errors.Error:
        context = info.context
        priority = input.priority.name.lower()
        return await answer(
            context.writer.update_session_priority(context.caller, input.id, priority, input.expected_version),
            _ON_CHANGE,
        )
