"""Mutations. What the caller can get wrong is a member of the result's union, never an entry of `errors`."""

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any, Final, TypeVar, Union

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.errors import AliquotError
from aliquot_schema.graphql import errors
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.inputs import CancelSessionInput, CreateSessionInput, UpdateSessionPriorityInput
from aliquot_schema.graphql.roots import root_field
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.graphql.sessions import Session
from aliquot_schema.requests import SessionChanged

T = TypeVar("T")

_ALWAYS: Final[tuple[type[errors.Error], ...]] = (
    errors.InvalidRequest,
    errors.LimitExceeded,
    errors.Unauthenticated,
    errors.Forbidden,
    errors.Unavailable,
)
_ON_CREATE: Final[tuple[type[errors.Error], ...]] = (
    *_ALWAYS,
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
    *_ALWAYS,
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


def _union(name: str, *members: type) -> Any:
    description = "Success, or what stood against it."
    return Annotated[Union.__getitem__(members), strawberry.union(name, description=description)]


CreateSessionResult = _union("CreateSessionResult", CreateSessionSuccess, *_ON_CREATE)
CancelSessionResult = _union("CancelSessionResult", CancelSessionSuccess, *_ON_CHANGE)
UpdateSessionPriorityResult = _union("UpdateSessionPriorityResult", UpdateSessionPrioritySuccess, *_ON_CHANGE)


@strawberry.type(description="Changes. Each answers after it is durable.")
class Mutation:
    @root_field(CreateSessionResult, "Submit a session.")
    async def create_session(
        self,
        info: Info[Context, None],
        input: Annotated[CreateSessionInput, strawberry.argument(description="What to run, with what.")],
    ) -> SessionChanged | errors.Error:
        context = info.context
        return await _answer(context.writer.create_session(context.caller, input.to_request()), _ON_CREATE)

    @root_field(CancelSessionResult, "Cancel a session that has not ended.")
    async def cancel_session(
        self,
        info: Info[Context, None],
        input: Annotated[CancelSessionInput, strawberry.argument(description="Which one.")],
    ) -> SessionChanged | errors.Error:
        context = info.context
        return await _answer(
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
        return await _answer(
            context.writer.update_session_priority(context.caller, input.id, priority, input.expected_version),
            _ON_CHANGE,
        )


async def _answer(
    change: Coroutine[Any, Any, SessionChanged], members: tuple[type[errors.Error], ...]
) -> SessionChanged | errors.Error:
    try:
        return await _finish(change)
    except AliquotError as error:
        value = errors.error_value(error)
        if not isinstance(value, members):
            raise  # leaves as an entry of `errors`, with its code
        return value


_unfinished: Final[set[asyncio.Task[Any]]] = set()


async def _finish(change: Coroutine[Any, Any, T]) -> T:
    """Carry a change through even if whoever asked for it goes away in between: half a commit helps nobody."""
    task = asyncio.ensure_future(change)
    _unfinished.add(task)
    task.add_done_callback(_let_go)
    return await asyncio.shield(task)


def _let_go(task: asyncio.Task[Any]) -> None:
    _unfinished.discard(task)
    if not task.cancelled():
        task.exception()  # asked for, so that asyncio does not report it when nobody waits any more
