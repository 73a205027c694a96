"""Expected errors: what a caller can get wrong, or the cluster can refuse. Each has a stable `code`.

AliquotError
├── InvalidRequest              the request can be seen to be wrong by itself
│   ├── InvalidAmount           NaN, infinite, negative, or not a number
│   ├── NotMultipleOfQuantum    an amount that is not a multiple of the device's step
│   ├── LimitExceeded           a size, length or count above a documented limit
│   └── UnsupportedField        a field that nothing acts on yet
├── UnknownSlot                 a slot type that no agent ever reported
├── ImpossibleRequest           would be refused on every registered agent, even an empty one
├── QuotaExceeded               could never start under a quota, or too many wait already
├── QueueFull                   as many tasks wait as the server keeps
├── RateLimited                 the caller asks for too much in too short a time
├── NotPlaced                   work run outside would have to wait, and does not
├── UnknownDependency           depends_on names a session that does not exist
├── NotFound                    no such session, agent, ...
├── StateConflict               the object is not in a state that allows this
├── VersionConflict             expected_version is not the current one
├── IdempotencyMismatch         the key was used before with another request
├── Unauthenticated             no token, or not a valid one
├── Forbidden                   known, but not allowed
├── AllocationRefused           an agent's device maps cannot give what was asked
│   ├── InsufficientResource    not enough left
│   ├── FractionalResourceFragmented  enough in sum, not in one piece or in equal parts
│   ├── InvalidResourceCombination    two slots that exclude each other
│   └── UnsupportedResource     the agent does not have this slot
└── Unavailable                 the server cannot do this now; try again
"""

from datetime import datetime
from typing import ClassVar


class AliquotError(Exception):
    """An expected failure. `message` is written for the person who caused it and says what to do."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidRequest(AliquotError):
    """The request can be seen to be wrong by itself."""

    code = "invalid_request"

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class InvalidAmount(InvalidRequest):
    """An amount is not a number, not finite, or negative."""

    code = "invalid_amount"

    def __init__(self, message: str, *, slot: str, amount: str) -> None:
        super().__init__(message, field="slots")
        self.slot = slot
        self.amount = amount


class NotMultipleOfQuantum(InvalidRequest):
    """An amount is not a multiple of the slot's step."""

    code = "not_multiple_of_quantum"

    def __init__(self, message: str, *, slot: str, amount: str, quantum: str) -> None:
        super().__init__(message, field="slots")
        self.slot = slot
        self.amount = amount
        self.quantum = quantum


class LimitExceeded(InvalidRequest):
    """A size, length or count is above a documented limit."""

    code = "limit_exceeded"

    def __init__(self, message: str, *, field: str, limit: int, actual: int) -> None:
        super().__init__(message, field=field)
        self.limit = limit
        self.actual = actual


class UnsupportedField(InvalidRequest):
    """A field was set that nothing acts on yet; it is refused rather than swallowed."""

    code = "unsupported_field"


class UnknownSlot(AliquotError):
    """A slot was asked for that no agent ever reported."""

    code = "unknown_slot"

    def __init__(self, message: str, *, slot: str, known: tuple[str, ...]) -> None:
        super().__init__(message)
        self.slot = slot
        self.known = known


class ImpossibleRequest(AliquotError):
    """No registered agent could ever run this, even when empty."""

    code = "impossible_request"

    def __init__(self, message: str, *, slot: str, requested: str, limit: str) -> None:
        super().__init__(message)
        self.slot = slot
        self.requested = requested
        self.limit = limit


class QuotaExceeded(AliquotError):
    """A quota stands against the request: it could never start under it, or too much waits already."""

    code = "quota_exceeded"

    def __init__(self, message: str, *, quota: str, resource: str, requested: str, limit: str) -> None:
        super().__init__(message)
        self.quota = quota
        self.resource = resource
        self.requested = requested
        self.limit = limit


class QueueFull(AliquotError):
    """As many tasks wait as the server keeps; try again when some have started."""

    code = "queue_full"

    def __init__(self, message: str, *, limit: int, queued: int, retry_after: float) -> None:
        super().__init__(message)
        self.limit = limit
        self.queued = queued
        self.retry_after = retry_after
        """Seconds."""


class RateLimited(AliquotError):
    """The caller asks for too much in too short a time; try again later."""

    code = "rate_limited"

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds."""


class NotPlaced(AliquotError):
    """Work that is run outside does not wait, and there is nothing for it now."""

    code = "not_placed"

    def __init__(
        self, message: str, *, reason: str, holders: tuple[object, ...] = (), until: datetime | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.holders = holders
        """Who is in the way: `BlockerView`."""
        self.until = until
        """When it would get what it asks for, if it could wait; None = nobody knows."""


class UnknownDependency(AliquotError):
    """`depends_on` names a session that does not exist."""

    code = "unknown_dependency"

    def __init__(self, message: str, *, session_id: str) -> None:
        super().__init__(message)
        self.session_id = session_id


class NotFound(AliquotError):
    """The object named does not exist, or is not yours to see."""

    code = "not_found"

    def __init__(self, message: str, *, kind: str, id: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.id = id


class StateConflict(AliquotError):
    """The object is not in a state that allows this."""

    code = "state_conflict"

    def __init__(self, message: str, *, id: str, state: str) -> None:
        super().__init__(message)
        self.id = id
        self.state = state


class VersionConflict(AliquotError):
    """The object changed since the caller read it."""

    code = "version_conflict"

    def __init__(self, message: str, *, id: str, expected: int, actual: int) -> None:
        super().__init__(message)
        self.id = id
        self.expected = expected
        self.actual = actual


class IdempotencyMismatch(AliquotError):
    """The idempotency key was used before, with another request."""

    code = "idempotency_mismatch"

    def __init__(self, message: str, *, key: str, session_id: str) -> None:
        super().__init__(message)
        self.key = key
        self.session_id = session_id


class Unauthenticated(AliquotError):
    """No token was given, or it is not a valid one."""

    code = "unauthenticated"


class Forbidden(AliquotError):
    """The caller is known, and may not do this."""

    code = "forbidden"


class AllocationRefused(AliquotError):
    """An agent's device maps cannot give what was asked; nothing was changed."""

    code = "allocation_refused"

    def __init__(self, message: str, *, slot: str, requested: str, available: str = "") -> None:
        super().__init__(message)
        self.slot = slot
        self.requested = requested
        self.available = available


class InsufficientResource(AllocationRefused):
    """Not enough of the slot is left."""

    code = "insufficient_resource"


class FractionalResourceFragmented(AllocationRefused):
    """There is enough in sum, but not in one piece, or not in equal parts."""

    code = "fractional_resource_fragmented"


class InvalidResourceCombination(AllocationRefused):
    """Two slots were asked for together that exclude each other."""

    code = "invalid_resource_combination"


class UnsupportedResource(AllocationRefused):
    """The agent does not have this slot."""

    code = "unsupported_resource"


class Unavailable(AliquotError):
    """The server cannot do this now; the same request may succeed later."""

    code = "unavailable"
