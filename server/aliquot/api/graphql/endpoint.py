"""GraphQL over HTTP: one operation per request, answered as JSON or as a stream of server-sent events.

Source: GraphQL over HTTP (working draft); GraphQL over Server-Sent Events, distinct connections mode.
"""

import asyncio
import json
import logging
import math
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, aclosing, contextmanager, suppress
from functools import partial
from typing import Any, Final

import strawberry
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send
from strawberry.http.streaming import SSETransport, merge_stream_with_heartbeat
from strawberry.schema.exceptions import CannotGetOperationTypeError, InvalidOperationTypeError
from strawberry.types.execution import ExecutionResult
from strawberry.types.graphql import OperationType

from aliquot.api.connections import OpenConnections, OpenCounts, expire
from aliquot.api.encoding import (
    EVENTS,
    JSON,
    RESPONSE,
    AnswerTooLarge,
    Malformed,
    answer_json,
    encoded_response,
    is_json,
    json_response,
    json_text,
    json_value,
    negotiated,
    timeout_text,
    too_large_answer,
)
from aliquot.api.graphql.shared_subscriptions import OperationRequest, SharedSubscriptions
from aliquot.api.limits import BodySize, BodyTooLarge, Limits, retry_after
from aliquot.api.metrics.request_counts import request_notes
from aliquot.api.middleware import body_refused
from aliquot_schema.errors import Unauthenticated
from aliquot_schema.graphql.context import Context
from aliquot_schema.requests import Caller

log: Final = logging.getLogger("aliquot.api")
_END: Final[Message] = {"type": "http.response.body", "body": b"", "more_body": False}
METHODS: Final = ("GET", "POST")
TOO_MANY_STREAMS: Final = "too_many_streams"
_READING: Final = frozenset({OperationType.QUERY})
_ANY: Final = frozenset({OperationType.QUERY, OperationType.MUTATION})


async def read_parameters(request: Request, *, size: BodySize) -> OperationRequest:
    """Read the parameters from a GET's query string or a POST's body.

    Raises:
        Malformed: it is not a GraphQL request.
        BodyTooLarge: the body exceeds its limit.
    """
    if request.method == "GET":
        return _checked(_from_query(request.query_params))
    # CSRF protection: pages of other sites can send forms and plain text, but not JSON.
    if not is_json(request.headers.get("content-type")):
        raise Malformed("The body must have the content type application/json, in UTF-8.", status=415)
    body = _decoded(await size.read(request), "The body")
    if isinstance(body, list):
        raise Malformed("Batches are not supported; send one request per operation.")
    if not isinstance(body, dict):
        raise Malformed("The body must be a JSON object with a `query`.")
    return _checked(body)


def _from_query(query: QueryParams) -> dict[str, Any]:
    values: dict[str, Any] = dict(query)
    for name in ("variables", "extensions"):
        if values.get(name):
            values[name] = _decoded(values[name], f"`{name}`")
        else:
            values.pop(name, None)
    return values


def _decoded(text: str | bytes | bytearray, what: str) -> Any:
    try:
        return json_value(text)
    except json.JSONDecodeError as error:
        raise Malformed(f"{what} is not valid JSON: {error.msg} at character {error.pos}.") from None


def _checked(values: dict[str, Any]) -> OperationRequest:
    query, name, variables = values.get("query"), values.get("operationName"), values.get("variables")
    if not isinstance(query, str) or not query.strip():
        raise Malformed("`query` is missing, or is not a string.")
    if not isinstance(name, str | None):
        raise Malformed("`operationName` must be a string.")
    if not isinstance(variables, dict | None):
        raise Malformed("`variables` must be an object.")
    if not isinstance(values.get("extensions"), dict | None):
        raise Malformed("`extensions` must be an object.")
    return OperationRequest(text=query, operation_name=name or None, variables=variables)


class EventStream(StreamingResponse):
    """An event stream that ends when the client leaves a piece unread for too long, the caller's rights end, or the
    server stops.

    Args:
        holding: registers the open stream; the given callback is called when the rights end or the server stops.
    """

    def __init__(
        self,
        pieces: AsyncGenerator[str, None],
        *,
        holding: Callable[[Callable[[], None]], AbstractContextManager[None]],
        headers: Mapping[str, str],
        slow_client_s: float,
    ) -> None:
        super().__init__(pieces, headers=headers)
        self._pieces = pieces
        self._holding = holding
        self._slow_client_s = slow_client_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        rights, has_begun = asyncio.timeout(None), False

        async def send_in_time(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            try:
                async with asyncio.timeout(self._slow_client_s):
                    await send(message)
            except TimeoutError:
                raise _ClientTooSlow from None

        try:
            # Closed here, else the subscription would run until garbage collection.
            async with rights, aclosing(self._pieces):
                with self._holding(partial(expire, rights)):
                    await super().__call__(scope, receive, send_in_time)
        except TimeoutError:
            if not rights.expired():
                raise
            with suppress(_ClientTooSlow):  # the client may be gone
                await (send_in_time(_END) if has_begun else Response(status_code=401)(scope, receive, send))
        except _ClientTooSlow:
            log.info("a client that did not read its event stream was disconnected")


class _ClientTooSlow(Exception):
    """The client did not read a piece in time."""


class GraphQLEndpoint:
    """Decodes, executes and answers requests. `context_of` authenticates a request and makes its context."""

    def __init__(
        self,
        schema: strawberry.Schema,
        *,
        context_of: Callable[[Request], Context],
        sharing: SharedSubscriptions,
        open_connections: OpenConnections,
        limits: Limits,
        page: Callable[[Request], Response | None],
    ) -> None:
        """
        Args:
            page: GraphiQL, for a browser that opens the address without a query; None if it is not built.
        """
        self._schema = schema
        self._page = page
        self._context_of = context_of
        self._sharing = sharing
        self._held_open = open_connections
        self.streams = OpenCounts(per_user=limits.streams_per_user)
        self._request_s = limits.request_s
        self._slow_client_s = limits.slow_client_s
        self._limits = limits

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        if request.method == "GET" and _is_browser(request) and (page := self._page(request)) is not None:
            return page
        media_type = negotiated(request.headers.get("accept"))
        try:
            if request.method not in METHODS:
                raise Malformed(f"{request.method} is not allowed; use GET or POST.", status=405)
            if media_type is None:
                raise Malformed(
                    f"None of the accepted media types is available; accept {RESPONSE}, {JSON} or {EVENTS}.", status=406
                )
            context = self._context_of(request)
            asked = await read_parameters(request, size=BodySize.of_caller(context.caller, self._limits))
            if media_type == EVENTS:
                return self._stream(asked, context, is_get=request.method == "GET")
            return await self._execute(asked, context, media_type, is_get=request.method == "GET")
        except Malformed as error:
            response = _refusal(error.message, "bad_request", error.status, media_type)
            if error.status == 405:
                response.headers["allow"] = ", ".join(METHODS)
            return response
        except BodyTooLarge as error:
            return body_refused(request.scope, error)
        except Unauthenticated as error:
            response = _refusal(error.message, error.code, 401, media_type)
            response.headers["www-authenticate"] = "Bearer"
            return response

    async def _execute(self, asked: OperationRequest, context: Context, media_type: str, *, is_get: bool) -> Response:
        try:
            async with asyncio.timeout(self._request_s):
                result = await self._schema.execute(
                    asked.text,
                    variable_values=asked.variables,
                    context_value=context,
                    operation_name=asked.operation_name,
                    allowed_operation_types=_READING if is_get else _ANY,
                )
        except CannotGetOperationTypeError as error:
            raise Malformed(error.as_http_error_reason()) from None
        except InvalidOperationTypeError as error:
            raise Malformed(
                _wrong_operation(error.operation_type, is_get=is_get), status=405 if is_get else 400
            ) from None
        except TimeoutError:
            message = timeout_text(self._request_s, is_change=request_notes().kind == "mutation")
            return _refusal(message, "timeout", 504, media_type)
        body = response_body(result)
        # Without `data` nothing was executed. Plain JSON is answered with 200 even so, for old proxies and clients.
        status = 400 if media_type == RESPONSE and "data" not in body else 200
        response = self._encoded(body, status=status, media_type=media_type)
        wait_s = retry_after(result.errors) if result.errors else None
        if wait_s is not None:
            response.status_code = 429
            response.headers["retry-after"] = str(math.ceil(wait_s))
        return response

    def _encoded(self, body: dict[str, Any], *, status: int, media_type: str) -> Response:
        try:
            text = answer_json(body, bytes_max=self._limits.answer_bytes)
        except AnswerTooLarge:
            is_change = request_notes().kind == "mutation"
            return json_response(
                too_large_answer(self._limits.answer_bytes, is_change=is_change), media_type=media_type
            )
        return encoded_response(text, status=status, media_type=media_type)

    def _stream(self, asked: OperationRequest, context: Context, *, is_get: bool) -> Response:
        if not self.streams.may_open(context.caller.user):
            message = (
                f"You have {self._limits.streams_per_user} streams open, the limit; close some, or use one WebSocket."
            )
            return _refusal(message, TOO_MANY_STREAMS, 429, EVENTS)
        transport = SSETransport()
        request_notes().note_operation("subscription", refused=False)

        async def events() -> AsyncGenerator[str, None]:
            following = self._sharing.find(asked, context)
            if following is not None:
                async with aclosing(following.texts()) as texts:
                    async for text in texts:
                        yield transport.encode_event("next", text)
                yield transport.encode_complete()
                return
            source = await self._schema.stream(
                asked.text,
                variable_values=asked.variables,
                context_value=context,
                operation_name=asked.operation_name,
                allowed_operation_types={*(_READING if is_get else _ANY), OperationType.SUBSCRIPTION},
            )
            async with aclosing(source):
                async for result in source:
                    yield transport.encode_event("next", json_text(response_body(result)))
            yield transport.encode_complete()

        merged = merge_stream_with_heartbeat(
            events,
            lambda: transport.encode_comment("alive"),
            interval=transport.heartbeat_interval,
            send_initial_heartbeat=False,
        )
        return EventStream(
            merged(),
            holding=partial(self._holding, context.caller),
            headers=dict(transport.headers),
            slow_client_s=self._slow_client_s,
        )

    @contextmanager
    def _holding(self, caller: Caller, end: Callable[[], None]) -> Iterator[None]:
        held = self._held_open
        with self.streams.counted(caller.user), held.until_stop(end), held.of_caller(caller, end):
            yield


def response_body(result: Any) -> dict[str, Any]:
    """A result as JSON members. `data` is left out when nothing was executed: then no error has a path."""
    assert isinstance(result, ExecutionResult)
    body: dict[str, Any] = {}
    if result.errors:
        body["errors"] = [error.formatted for error in result.errors]
    if result.data is not None or not result.errors or any(error.path for error in result.errors):
        body["data"] = result.data
    if result.extensions:
        body["extensions"] = result.extensions
    return body


def _wrong_operation(operation: OperationType, *, is_get: bool) -> str:
    if operation is OperationType.SUBSCRIPTION:
        return f"Subscriptions need a WebSocket, or a request that accepts {EVENTS}."
    return "Mutations need POST." if is_get else f"A {operation.value} cannot be sent here."


def _refusal(message: str, code: str, status: int, media_type: str | None) -> Response:
    body = {"errors": [{"message": message, "extensions": {"code": code}}]}
    return json_response(body, status=status, media_type=RESPONSE if media_type == RESPONSE else JSON)


def _is_browser(request: Request) -> bool:
    """Whether a person opens the address without a query."""
    return "text/html" in request.headers.get("accept", "") and "query" not in request.query_params
