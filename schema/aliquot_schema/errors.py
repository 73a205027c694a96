"""Expected errors: mistakes of callers and refusals of the cluster. Each class has a stable `code`.

AliquotError
├── InvalidRequest              a value is wrong, whatever the state of the cluster
│   ├── InvalidAmount           NaN, infinite, negative, or not a number
│   ├── NotMultipleOfQuantum    an amount that is not a multiple of the device's step
│   ├── LimitExceeded           a size, length or count above a documented limit
│   └── UnsupportedField        a field that is not implemented
├── UnknownSlot                 a slot type that no agent ever reported
├── ImpossibleRequest           does not fit any registered agent, even an empty one
├── QuotaExceeded               a quota could never be met, or its queue limit is reached
├── QueueFull                   the server's queue limit is reached
├── RateLimited                 the caller sent too many requests
├── NotPlaced                   an external allocation does not fit now
├── BookingRefused              a booking cannot be kept for its whole window
├── UnknownDependency           depends_on names a session that does not exist
├── NotFound                    no such session, agent, ...
├── StateConflict               the object is not in a state that allows this
├── VersionConflict             expected_version is not the current one
├── IdempotencyMismatch         the key was used before with another request
├── Unauthenticated             no token, or an invalid one
├── Forbidden                   authenticated, but not allowed
├── AllocationRefused           an agent's devices cannot satisfy the request
│   ├── InsufficientResource    not enough left
│   ├── FractionalResourceFragmented  enough in sum, not in one piece or in equal parts
│   ├── InvalidResourceCombination    two slots that exclude each other
│   └── UnsupportedResource     the agent does not have this slot
└── Unavailable                 temporary: the server cannot do this now; try again
"""

from datetime import datetime
from typing import ClassVar


class AliquotError(Exception):
    """An expected failure. `message` is written for the caller and says what to do next."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidRequest(AliquotError):
    """A value of the request is wrong, whatever the state of the cluster; `field` names it where possible."""

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
    """A field was set that is not implemented; it is rejected instead of ignored."""

    code = "unsupported_field"


class UnknownSlot(AliquotError):
    """The request names a slot that no agent ever reported; `known` lists the slots there are."""

    code = "unknown_slot"

    def __init__(self, message: str, *, slot: str, known: tuple[str, ...]) -> None:
        super().__init__(message)
        self.slot = slot
        self.known = known


class ImpossibleRequest(AliquotError):
    """The request does not fit any registered agent, even an empty one."""

    code = "impossible_request"

    def __init__(self, message: str, *, slot: str, requested: str, limit: str) -> None:
        super().__init__(message)
        self.slot = slot
        self.requested = requested
        self.limit = limit


class QuotaExceeded(AliquotError):
    """A quota rules the request out: it could never start under it, or the quota's queue limit is reached."""

    code = "quota_exceeded"

    def __init__(self, message: str, *, quota: str, resource: str, requested: str, limit: str) -> None:
        super().__init__(message)
        self.quota = quota
        self.resource = resource
        self.requested = requested
        self.limit = limit


class QueueFull(AliquotError):
    """The server's limit on waiting tasks is reached; try again once some have started."""

    code = "queue_full"

    def __init__(self, message: str, *, limit: int, queued: int, retry_after: float) -> None:
        super().__init__(message)
        self.limit = limit
        self.queued = queued
        self.retry_after = retry_after
        """Seconds."""


class RateLimited(AliquotError):
    """The caller sent too many requests; try again after `retry_after`."""

    code = "rate_limited"

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds."""


class NotPlaced(AliquotError):
    """An external allocation does not fit now, and external allocations never queue."""

    code = "not_placed"

    def __init__(
        self, message: str, *, reason: str, holders: tuple[object, ...] = (), until: datetime | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.holders = holders
        """Sessions that hold, or are to get before it, what it needs: `BlockerView`."""
        self.until = until
        """When it could start if it queued; None = unknown."""


class BookingRefused(AliquotError):
    """A booking, or its extension, cannot be kept: its devices are taken for a part of the window, or a quota is."""

    code = "booking_refused"

    def __init__(self, message: str, *, id: str) -> None:
        super().__init__(message)
        self.id = id


class UnknownDependency(AliquotError):
    """`depends_on` names a session that does not exist."""

    code = "unknown_dependency"

    def __init__(self, message: str, *, session_id: str) -> None:
        super().__init__(message)
        self.session_id = session_id


class NotFound(AliquotError):
    """The named object does not exist, or is not visible to the caller."""

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
    """No token was sent, or it is invalid."""

    code = "unauthenticated"


class Forbidden(AliquotError):
    """The caller is authenticated, but not allowed to do this."""

    code = "forbidden"


class AllocationRefused(AliquotError):
    """An agent's devices cannot satisfy the request; nothing was changed."""

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
    """Enough is free in sum, but not in one piece, or not in equal parts."""

    code = "fractional_resource_fragmented"


class InvalidResourceCombination(AllocationRefused):
    """The request combines two slots that exclude each other."""

    code = "invalid_resource_combination"


class UnsupportedResource(AllocationRefused):
    """The agent does not have this slot."""

    code = "unsupported_resource"


class Unavailable(AliquotError):
    """A temporary failure; the same request may succeed later."""

    code = "unavailable"
