"""Limits of the HTTP API on everything that a caller can make large.

Also the query rate limit: cost per user and minute.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Self

from graphql import GraphQLError
from msgspec import Struct
from starlette.requests import Request

from aliquot.api.encoding import ValueCount
from aliquot.service.accounts.rate_limit import Rate, TokenBuckets
from aliquot_schema.errors import RateLimited
from aliquot_schema.identity.accounts import Role
from aliquot_schema.requests import Caller

RETRY_AFTER: Final = "retry_after"


class Limits(Struct, frozen=True, kw_only=True):
    """Limits; sizes in bytes, times in seconds."""

    body_bytes: int = 16 * 1024 * 1024
    """Body of a GraphQL request, or a WebSocket message, of a caller who may submit sessions."""
    body_values: int = 200_000
    """JSON values in such a body: a batch of 1,000 sessions with 200 values each."""
    small_body_bytes: int = 1024 * 1024
    """Bodies of other callers, and of all REST requests, which have no batches."""
    small_body_values: int = 5_000
    answer_bytes: int = 16 * 1024 * 1024
    """One response to a query or mutation."""
    query_characters: int = 256 * 1024
    """Text of a query; long values belong into variables."""
    tokens: int = 2_000
    depth: int = 16
    aliases: int = 100
    cost: int = 25_000
    """A page of 100 sessions of the queue with all fields, as the client and the command line ask for, fits."""
    comparisons: int = 2_000
    """Comparisons between fields selected under one name."""
    introspection: bool = True
    """Whether introspection queries are answered, and errors suggest names of the schema."""
    openapi_open: bool = False
    """Whether the OpenAPI document needs no key."""
    request_s: float = 30.0
    """Time limit of a query or mutation. Subscriptions have none."""
    body_s: float = 30.0
    """Until the whole body of a request must have arrived; longer for a large one, see `BodyTimeout`."""
    connection_init_s: float = 10.0
    """Until a WebSocket must have sent connection_init."""
    slow_client_s: float = 10.0
    """How long a client may leave a message or a piece of a response unread before it is disconnected."""
    operations_per_socket: int = 100
    sockets_per_user: int = 6_000
    """Open at the same time on one server."""
    streams_per_user: int = 1_000
    """Event streams over HTTP, open at the same time on one server."""
    session_streams_per_user: int = 200
    """Terminals and connections to ports of sessions, open at the same time on one server."""
    downloads_per_user: int = 20
    """Files of results, downloaded at the same time from one server."""
    uploads_per_user: int = 8
    """Requests that upload working directories, at the same time on one server."""
    stream_bytes_per_s: int = 64 * 1024 * 1024
    """Of one of these, both directions together; more waits."""
    cost_per_minute: int | None = None
    """Total cost of a user's queries; None = no limit."""


class BodySize(Struct, frozen=True, kw_only=True):
    """Limit of a body."""

    bytes_max: int
    values_max: int
    """JSON values."""

    @classmethod
    def of_caller(cls, caller: Caller, limits: Limits) -> Self:
        """Limit of a GraphQL request: large ones are batches of sessions, so only callers who may submit have the
        large limit."""
        if caller.role < Role.USER:
            return cls.small(limits)
        return cls(bytes_max=limits.body_bytes, values_max=limits.body_values)

    @classmethod
    def small(cls, limits: Limits) -> Self:
        """Limit of a request without a batch."""
        return cls(bytes_max=limits.small_body_bytes, values_max=limits.small_body_values)

    async def read(self, request: Request) -> bytearray:
        """Read a body that may be decoded; reading stops at the limit.

        Raises:
            BodyTooLarge: it has too many bytes or values.
        """
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > self.bytes_max:
            raise BodyTooLarge(self.too_long)
        body, values, is_within = bytearray(), ValueCount(self.values_max), True
        async for piece in request.stream():
            if len(body) + len(piece) > self.bytes_max:
                raise BodyTooLarge(self.too_long)
            body += piece
            is_within = is_within and values.is_within(piece)
        if not is_within:
            await self._check_values(values, body)
        return body

    async def check(self, text: str) -> None:
        """Check a WebSocket message before it is decoded.

        Raises:
            BodyTooLarge: it has too many bytes or values.
        """
        if len(text) > self.bytes_max:
            raise BodyTooLarge(self.too_long)
        if len(text) > self.values_max and not ValueCount(self.values_max).is_within(text.encode("utf-8", "replace")):
            await self._check_values(ValueCount(self.values_max), text.encode("utf-8", "replace"))

    @property
    def too_long(self) -> str:
        """The error message."""
        return (
            f"A body may have at most {self.bytes_max} bytes for this caller and path. Split it into several requests."
        )

    async def _check_values(self, values: ValueCount, text: bytes | bytearray) -> None:
        for is_above in values.exceeds(text):
            if is_above:
                raise BodyTooLarge(
                    f"A body may have at most {self.values_max} JSON values for this caller and path. Send fewer "
                    "sessions or shorter lists in each request."
                )
            await asyncio.sleep(0)  # other requests run between two pieces


class BodyTooLarge(Exception):
    """A body exceeds its limit; the message names the limit."""


class QueryRates:
    """Token bucket per user. Operators and admins are not limited.

    Args:
        rate: cost per minute; None = no limit.
        monotonic: seconds from an arbitrary start.
    """

    def __init__(self, rate: Rate | None, *, monotonic: Callable[[], float]) -> None:
        self._rate = rate
        self._buckets = None if rate is None else TokenBuckets(rate, monotonic=monotonic)

    def check(self, caller: Caller, *, cost: int) -> None:
        """Charge an operation to the caller's bucket.

        Raises:
            RateLimited: the bucket is empty; the error says when to retry.
        """
        if self._buckets is None or self._rate is None or caller.role >= Role.OPERATOR:
            return
        wait_s = self._buckets.take(caller.user, cost)
        if wait_s > 0:
            raise RateLimited(
                f"{caller.user} has used the query cost of {self._rate.per_minute} per minute; try again in "
                f"{wait_s:.1f} seconds, request less, or use a subscription instead of polling",
                retry_after=wait_s,
            )

    def refusal(self, caller: Caller, *, cost: int) -> GraphQLError | None:
        """Like `check`, but returns the refusal as a GraphQL error."""
        try:
            self.check(caller, cost=cost)
        except RateLimited as error:
            extensions = {"code": error.code, RETRY_AFTER: error.retry_after}
            return GraphQLError(error.message, extensions=extensions)
        return None


def retry_after(errors: object) -> float | None:
    """Seconds to wait, if a whole operation was rate limited."""
    for error in errors if isinstance(errors, list) else ():
        extensions = error.extensions if isinstance(error, GraphQLError) else None
        if extensions and extensions.get("code") == RateLimited.code and not error.path:
            return float(extensions[RETRY_AFTER])
    return None
