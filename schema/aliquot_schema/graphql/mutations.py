"""Mutations. What the caller can get wrong is a member of the result's union, never an entry of `errors`."""

from typing import Annotated, Final

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.graphql import errors
from aliquot_schema.graphql.administration import AdministrationMutations
from aliquot_schema.graphql.answers import ALWAYS, answer, union
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.inputs import CancelSessionInput, CreateSessionInput, UpdateSessionPriorityInput
from aliquot_schema.graphql.roots import root_field
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.graphql.sessions import Session
from aliquot_schema.requests import SessionChanged

_ON_CREATE: Final[tuple[type[errors.Error], ...]] = (
    *ALWAYS,
    errors.InvalidAmount,
    errors.NotMultipleOfQuantum,
    errors.UnsupportedField,
    errors.UnknownSlot,
    errors.ImpossibleRequest,
    errors.UnknownDependency,
    errors.IdempotencyMismatch,
    errors.AllocationRefused,
    errors.InsufficientResource,
    errors.FractionalResourceFragmented,
    errors.InvalidResourceCombination,
    errors.UnsupportedResource,
)
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


CreateSessionResult = union("CreateSessionResult", CreateSessionSuccess, *_ON_CREATE)
CancelSessionResult = union("CancelSessionResult", CancelSessionSuccess, *_ON_CHANGE)
UpdateSessionPriorityResult = union("UpdateSessionPriorityResult", UpdateSessionPrioritySuccess, *_ON_CHANGE)


@strawberry.type(description="Changes. Each answers after it is durable.")
class Mutation(AdministrationMutations):
    @root_field(CreateSessionResult, "Submit a session.")
    async def create_session(
        self,
        info: Info[Context, None],
        input: Annotated[CreateSessionInput, strawberry.argument(description="What to run, with what.")],
    ) -> SessionChanged | errors.Error:
        context = info.context
        return await answer(context.writer.create_session(context.caller, input.to_request()), _ON_CREATE)

    @root_field(CancelSessionResult, "Cancel a session that has not ended.")
    async def cancel_session(
        self,
        info: Info[Context, None],
        input: Annotated[CancelSessionInput, strawberry.argument(description="Which one.")],
    ) -> SessionChanged | errors.Error:
        context = info.context
        return await answer(
            context.writer.cancel_session(context.caller, input.id, input.expected_version), _ON_CHANGE
        )

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
