"""Expected errors as GraphQL types: one for each class of `aliquot_schema.errors`, with its fields."""

from datetime import datetime
from typing import Final

import strawberry

from aliquot_schema import errors
from aliquot_schema.graphql.scalars import BigInt


@strawberry.interface(description="An expected failure: something the caller can act on.")
class Error:
    code: str = strawberry.field(description="Stable; for programs.")
    message: str = strawberry.field(description="For the person who caused it; says what to do.")


@strawberry.interface(description="The request can be seen to be wrong by itself.")
class RequestError(Error):
    field: str | None = strawberry.field(description="The input field that is wrong, where one is.")


@strawberry.interface(description="Devices cannot give what was asked; nothing was changed.")
class RefusedError(Error):
    slot: str = strawberry.field(description="The slot that was asked for.")
    requested: str = strawberry.field(description="How much was asked for.")
    available: str = strawberry.field(description="How much there is; empty where that says nothing.")


@strawberry.type(description="The request can be seen to be wrong by itself.")
class InvalidRequest(RequestError): ...


@strawberry.type(description="An amount is not a number, not finite, or negative.")
class InvalidAmount(RequestError):
    slot: str = strawberry.field(description="The slot it was given for.")
    amount: str = strawberry.field(description="The amount, as it was written.")


@strawberry.type(description="An amount is not a multiple of the slot's step.")
class NotMultipleOfQuantum(RequestError):
    slot: str = strawberry.field(description="The slot it was given for.")
    amount: str = strawberry.field(description="The amount, as it was written.")
    quantum: str = strawberry.field(description="The step.")


@strawberry.type(description="A size, length or count is above a documented limit.")
class LimitExceeded(RequestError):
    limit: BigInt = strawberry.field(description="The most that is taken.")
    actual: BigInt = strawberry.field(description="What was given.")


@strawberry.type(description="A field was set that nothing acts on yet; it is refused rather than swallowed.")
class UnsupportedField(RequestError): ...


@strawberry.type(description="A slot was asked for that no agent ever reported.")
class UnknownSlot(Error):
    slot: str = strawberry.field(description="The slot that was asked for.")
    known: list[str] = strawberry.field(description="The slots there are.")


@strawberry.type(description="No registered agent could ever run this, even when empty.")
class ImpossibleRequest(Error):
    slot: str = strawberry.field(description="The slot that is too small everywhere.")
    requested: str = strawberry.field(description="How much was asked for.")
    limit: str = strawberry.field(description="The most that one agent could give.")


@strawberry.type(description="A quota stands against the request: it could never start under it, or too much waits.")
class QuotaExceeded(Error):
    quota: strawberry.ID = strawberry.field(description="The quota, like user:ann.")
    resource: str = strawberry.field(description="What of it is too little: a slot, or queued, or gpu_hours.")
    requested: str = strawberry.field(description="How much was asked for.")
    limit: str = strawberry.field(description="The most that the quota allows.")


@strawberry.type(description="As many tasks wait as the server keeps; try again when some have started.")
class QueueFull(Error):
    limit: BigInt = strawberry.field(description="The most that may wait; a job array counts its tasks.")
    queued: BigInt = strawberry.field(description="How many wait.")
    retry_after: float = strawberry.field(description="Seconds after which trying again makes sense.")


@strawberry.type(description="You ask for too much in too short a time.")
class RateLimited(Error):
    retry_after: float = strawberry.field(description="Seconds after which it can be asked again.")


@strawberry.type(description="Somebody who holds what is asked for, or who is to get it before.")
class Blocker:
    session_id: strawberry.ID = strawberry.field(description="The session.")
    user: str = strawberry.field(description="Whose it is.")
    name: str | None = strawberry.field(description="What its owner calls it.")
    until: datetime | None = strawberry.field(description="When it is reckoned to give it back, where known.")


@strawberry.type(description="Work that is run outside does not wait, and there is nothing for it now.")
class NotPlaced(Error):
    reason: str = strawberry.field(description="Why, as `Reason` has it.")
    holders: list[Blocker] = strawberry.field(description="Who is in the way.")
    until: datetime | None = strawberry.field(description="When it would get it, if it could wait, as far as known.")


@strawberry.type(description="`depends_on` names a session that does not exist.")
class UnknownDependency(Error):
    session_id: strawberry.ID = strawberry.field(description="The session that was named.")


@strawberry.type(description="The object named does not exist, or is not yours to see.")
class NotFound(Error):
    kind: str = strawberry.field(description="What kind of object.")
    id: strawberry.ID = strawberry.field(description="The id that was named.")


@strawberry.type(description="The object is not in a state that allows this.")
class StateConflict(Error):
    id: strawberry.ID = strawberry.field(description="The object.")
    state: str = strawberry.field(description="The state it is in.")


@strawberry.type(description="The object changed since the caller read it; read it again.")
class VersionConflict(Error):
    id: strawberry.ID = strawberry.field(description="The object.")
    expected: int = strawberry.field(description="The version that was expected.")
    actual: int = strawberry.field(description="The version it has.")


@strawberry.type(description="The idempotency key was used before, with another request.")
class IdempotencyMismatch(Error):
    key: str = strawberry.field(description="The key.")
    session_id: strawberry.ID = strawberry.field(description="The session that was created with it.")


@strawberry.type(description="No token was given, or not a valid one.")
class Unauthenticated(Error): ...


@strawberry.type(description="The caller is known, and may not do this.")
class Forbidden(Error): ...


@strawberry.type(description="An agent's devices cannot give what was asked; nothing was changed.")
class AllocationRefused(RefusedError): ...


@strawberry.type(description="Not enough of the slot is left.")
class InsufficientResource(RefusedError): ...


@strawberry.type(description="There is enough in sum, but not in one piece, or not in equal parts.")
class FractionalResourceFragmented(RefusedError): ...


@strawberry.type(description="Two slots were asked for together that exclude each other.")
class InvalidResourceCombination(RefusedError): ...


@strawberry.type(description="The agent does not have this slot.")
class UnsupportedResource(RefusedError): ...


@strawberry.type(description="The server cannot do this now; the same request may succeed later.")
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
    """What an error says beside its message: its code and its own attributes."""
    return {"code": error.code, **{name: value for name, value in vars(error).items() if name != "message"}}


def error_value(error: errors.AliquotError) -> Error | None:
    """The GraphQL value of an error; None when it has no type of its own."""
    type_ = TYPES.get(type(error))
    return type_(message=error.message, **error_fields(error)) if type_ else None  # type: ignore[arg-type]  # by name
