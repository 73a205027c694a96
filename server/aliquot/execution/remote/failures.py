"""Expected errors of an agent, on their way to the server."""

from collections.abc import Callable, Mapping
from typing import Final

from aliquot_schema.agent_protocol import Failure
from aliquot_schema.errors import AliquotError, Forbidden, InvalidRequest, NotFound, StateConflict, Unavailable


def to_failure(error: AliquotError) -> Failure:
    """An error as it is sent."""
    fields = {name: str(value) for name, value in vars(error).items() if name != "message" and value is not None}
    return Failure(code=error.code, message=error.message, fields=fields)


def from_failure(failure: Failure) -> AliquotError:
    """The error that was sent; one that is not known here is `Unavailable`."""
    make = _KINDS.get(failure.code)
    return Unavailable(failure.message) if make is None else make(failure.message, failure.fields)


_KINDS: Final[Mapping[str, Callable[[str, Mapping[str, str]], AliquotError]]] = {
    NotFound.code: lambda text, has: NotFound(text, kind=has.get("kind", ""), id=has.get("id", "")),
    StateConflict.code: lambda text, has: StateConflict(text, id=has.get("id", ""), state=has.get("state", "")),
    InvalidRequest.code: lambda text, has: InvalidRequest(text, field=has.get("field")),
    Forbidden.code: lambda text, _: Forbidden(text),
}
