"""GraphQL errors: one type per class of `aliquot_schema.errors`, and the result unions that contain them."""

from collections.abc import Coroutine
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar, Union

import strawberry

from aliquot_schema import errors
from aliquot_schema.async_tasks import run_shielded
from aliquot_schema.errors import AliquotError
from aliquot_schema.graphql.scalars import BigInt


@strawberry.interface(description="An expected failure that the caller can act on.")
class Error:
    code: str = strawberry.field(description="Stable code for programs.")
    message: str = strawberry.field(description="Message for the user, with what to do next.")


@strawberry.interface(description="A value of the request is invalid, whatever the state of the cluster.")
class RequestError(Error):
    field: str | None = strawberry.field(description="The invalid input field; null if it is not a single one.")


@strawberry.interface(description="The devices cannot satisfy the request; nothing was changed.")
class RefusedError(Error):
    slot: str = strawberry.field(description="The requested slot.")
    requested: str = strawberry.field(description="The requested amount.")
    available: str = strawberry.field(description="The available amount; empty where it does not apply.")


@strawberry.type(description="A value of the request is invalid, whatever the state of the cluster.")
class InvalidRequest(RequestError): ...


@strawberry.type(description="An amount is not a number, not finite, or negative.")
class InvalidAmount(RequestError):
    slot: str = strawberry.field(description="The slot of the amount.")
    amount: str = strawberry.field(description="The amount as sent.")


@strawberry.type(description="An amount is not a multiple of the slot's step.")
class NotMultipleOfQuantum(RequestError):
    slot: str = strawberry.field(description="The slot of the amount.")
    amount: str = strawberry.field(description="The amount as sent.")
    quantum: str = strawberry.field(description="The slot's step.")


@strawberry.type(description="A size, length or count is above a documented limit.")
class LimitExceeded(RequestError):
    limit: BigInt = strawberry.field(description="The limit.")
    actual: BigInt = strawberry.field(description="The actual value.")


@strawberry.type(description="A field was set that is not implemented; it is rejected instead of ignored.")
class UnsupportedField(RequestError): ...


@strawberry.type(description="The request names a slot that no agent ever reported.")
class UnknownSlot(Error):
    slot: str = strawberry.field(description="The requested slot.")
    known: list[str] = strawberry.field(description="All known slots.")


@strawberry.type(description="The request does not fit any registered agent, even an empty one.")
class ImpossibleRequest(Error):
    slot: str = strawberry.field(description="The slot that is too small on every agent.")
    requested: str = strawberry.field(description="The requested amount.")
    limit: str = strawberry.field(description="The largest amount on one agent.")


@strawberry.type(
    description="A quota rules the request out: it could never start under it, or the quota's queue limit is reached."
)
class QuotaExceeded(Error):
    quota: strawberry.ID = strawberry.field(description="The quota, like `user:ann`.")
    resource: str = strawberry.field(description="The exceeded limit: a slot, `queued` or `gpu_hours`.")
    requested: str = strawberry.field(description="The requested amount.")
    limit: str = strawberry.field(description="The quota's limit.")


@strawberry.type(description="The server's limit on waiting tasks is reached; try again once some have started.")
class QueueFull(Error):
    limit: BigInt = strawberry.field(description="The limit on waiting tasks; each task of a job array counts.")
    queued: BigInt = strawberry.field(description="The number of waiting tasks.")
    retry_after: float = strawberry.field(description="Seconds to wait before trying again.")


@strawberry.type(description="The caller sent too many requests in a short time.")
class RateLimited(Error):
    retry_after: float = strawberry.field(description="Seconds to wait before trying again.")


@strawberry.type(description="A session that holds what the request needs, or that is ahead of it.")
class Blocker:
    session_id: strawberry.ID = strawberry.field(description="The session.")
    user: str = strawberry.field(description="Its owner.")
    name: str | None = strawberry.field(description="Its name.")
    until: datetime | None = strawberry.field(description="Expected release of its devices; null if unknown.")


@strawberry.type(description="The external allocation does not fit now, and external allocations never queue.")
class NotPlaced(Error):
    reason: str = strawberry.field(description="Why, a value of `Reason`.")
    holders: list[Blocker] = strawberry.field(description="Sessions that hold what it needs, or that are ahead of it.")
    until: datetime | None = strawberry.field(description="When it could start if it queued; null if unknown.")


@strawberry.type(description="The booking, or its extension, cannot be kept for its whole window.")
class BookingRefused(Error):
    id: strawberry.ID = strawberry.field(description="The booking.")


@strawberry.type(description="`depends_on` names a session that does not exist.")
class UnknownDependency(Error):
    session_id: strawberry.ID = strawberry.field(description="The named session.")


@strawberry.type(description="The named object does not exist, or the caller may not see it.")
class NotFound(Error):
    kind: str = strawberry.field(description="Kind of object.")
    id: strawberry.ID = strawberry.field(description="The id in the request.")


@strawberry.type(description="The object is not in a state that allows this.")
class StateConflict(Error):
    id: strawberry.ID = strawberry.field(description="The object.")
    state: str = strawberry.field(description="Its current state.")


@strawberry.type(description="The object changed since the caller read it; read it again.")
class VersionConflict(Error):
    id: strawberry.ID = strawberry.field(description="The object.")
    expected: int = strawberry.field(description="The version in the request.")
    actual: int = strawberry.field(description="The current version.")


@strawberry.type(description="The idempotency key was used before, with another request.")
class IdempotencyMismatch(Error):
    key: str = strawberry.field(description="The key.")
    session_id: strawberry.ID = strawberry.field(description="The session that was created with it.")


@strawberry.type(description="No token was sent, or it is invalid.")
class Unauthenticated(Error): ...


@strawberry.type(description="The caller is authenticated, but not allowed to do this.")
class Forbidden(Error): ...


@strawberry.type(description="An agent's devices cannot satisfy the request; nothing was changed.")
class AllocationRefused(RefusedError): ...


@strawberry.type(description="Not enough of the slot is left.")
class InsufficientResource(RefusedError): ...


@strawberry.type(description="Enough is free in sum, but not in one piece, or not in equal parts.")
class FractionalResourceFragmented(RefusedError): ...


@strawberry.type(description="The request combines two slots that exclude each other.")
class InvalidResourceCombination(RefusedError): ...


@strawberry.type(description="The agent does not have this slot.")
class UnsupportedResource(RefusedError): ...


@strawberry.type(description="A temporary failure; the same request may succeed later.")
class Unavailable(Error): ...


TYPES: Final[dict[type[errors.AliquotError], type[Error]]] = {
    getattr(errors, type_.__name__): type_
    for type_ in (
        InvalidRequest,
        InvalidAmount,
        NotMultipleOfQuantum,
        LimitExceeded,
        UnsupportedField,
        UnknownSlot,
        ImpossibleRequest,
        QuotaExceeded,
        QueueFull,
        NotPlaced,
        BookingRefused,
        RateLimited,
        UnknownDependency,
        NotFound,
        StateConflict,
        VersionConflict,
        IdempotencyMismatch,
        Unauthenticated,
        Forbidden,
        AllocationRefused,
        InsufficientResource,
        FractionalResourceFragmented,
        InvalidResourceCombination,
        UnsupportedResource,
        Unavailable,
    )
}


def error_fields(error: errors.AliquotError) -> dict[str, object]:
    """An error's code and attributes, without its message."""
    return {"code": error.code, **{name: value for name, value in vars(error).items() if name != "message"}}


def error_value(error: errors.AliquotError) -> Error | None:
    """The GraphQL value of an error; None if its class has no GraphQL type."""
    type_ = TYPES.get(type(error))
    return type_(message=error.message, **error_fields(error)) if type_ else None  # type: ignore[arg-type]  # by name


T = TypeVar("T")

ALWAYS: Final[tuple[type[Error], ...]] = (
    InvalidRequest,
    LimitExceeded,
    Unauthenticated,
    Forbidden,
    Unavailable,
)
"""What can stand against any change."""
ON_CREATE: Final[tuple[type[Error], ...]] = (
    *ALWAYS,
    InvalidAmount,
    NotMultipleOfQuantum,
    UnsupportedField,
    UnknownSlot,
    ImpossibleRequest,
    QuotaExceeded,
    QueueFull,
    RateLimited,
    UnknownDependency,
    IdempotencyMismatch,
    AllocationRefused,
    InsufficientResource,
    FractionalResourceFragmented,
    InvalidResourceCombination,
    UnsupportedResource,
)
"""Errors of a submission, and of a preview of one."""


def union(name: str, *members: type) -> Any:
    """The result type of a mutation: its success type and its expected errors."""
    description = "The success type, or an expected error."
    return Annotated[Union.__getitem__(members), strawberry.union(name, description=description)]


async def answer(change: Coroutine[Any, Any, T], members: tuple[type[Error], ...]) -> T | Error:
    """Result of a mutation. Errors that are not members propagate and become an entry of `errors`, with their code."""
    try:
        return await run_shielded(change)  # a cancelled request must not leave a commit half done
    except AliquotError as error:
        value = error_value(error)
        if not isinstance(value, members):
            raise
        return value
