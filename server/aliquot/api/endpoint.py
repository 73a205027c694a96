"""The GraphQL endpoint over HTTP: one operation for each request, answered as JSON or as a stream of events.

Source: GraphQL over HTTP (working draft); GraphQL over Server-Sent Events, distinct connections mode.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Any, Final

import strawberry
from starlette.requests import Request
from starlette.responses import Response
from strawberry.http.streaming import SSETransport, merge_stream_with_heartbeat
from strawberry.schema.exceptions import CannotGetOperationTypeError, InvalidOperationTypeError
from strawberry.types.execution import ExecutionResult
from strawberry.types.graphql import OperationType

from aliquot.api.encoding import json_response, json_text
from aliquot.api.event_stream import EventStream
from aliquot.api.held_open import HeldOpen
from aliquot.api.limits import Limits
from aliquot.api.malformed import Malformed
from aliquot.api.media_types import EVENTS, JSON, RESPONSE, negotiated
from aliquot.api.metrics.requests import request_notes
from aliquot.api.open_counts import OpenCounts
from aliquot.api.parameters import Parameters, read_parameters
from aliquot.api.query_rates import retry_after
from aliquot.api.sharing.requests import Asked
from aliquot.api.sharing.sharing import Sharing
from aliquot_schema.errors import Unauthenticated
from aliquot_schema.graphql.context import Context
from aliquot_schema.requests import Caller

METHODS: Final = ("GET", "POST")
TOO_MANY_STREAMS: Final = "too_many_streams"
_READING: Final = frozenset({OperationType.QUERY})
_ANY: Final = frozenset({OperationType.QUERY, OperationType.MUTATION})


class GraphQLEndpoint:
    """Reads, executes and answers. `context_of` makes the context of a request, or refuses it."""

    def __init__(
        self,
        schema: strawberry.Schema,
        *,
        context_of: Callable[[Request], Context],
        sharing: Sharing,
        held_open: HeldOpen,
        limits: Limits,
    ) -> None:
        self._schema = schema
        self._context_of = context_of
        self._sharing = sharing
        self._held_open = held_open
        self.streams = OpenCounts(per_user=limits.streams_per_user)
        self._request_s = limits.request_s
        self._slow_client_s = limits.slow_client_s

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        media_type = negotiated(request.headers.get("accept"))
        try:
            if request.method not in METHODS:
                raise Malformed(f"{request.method} is not taken; use GET or POST.", status=405)
            if media_type is None:
                raise Malformed(
                    f"Nothing that you accept can be given; {RESPONSE}, {JSON} and {EVENTS} can.", status=406
                )
            context = self._context_of(request)
            parameters = await read_parameters(request)
            if media_type == EVENTS:
                return self._stream(parameters, context, reading=request.method == "GET")
            return await self._execute(parameters, context, media_type, reading=request.method == "GET")
        except Malformed as error:
            response = _refusal(error.message, "bad_request", error.status, media_type)
            if error.status == 405:
                response.headers["allow"] = ", ".join(METHODS)
            return response
        except Unauthenticated as error:
            response = _refusal(error.message, error.code, 401, media_type)
            response.headers["www-authenticate"] = "Bearer"
            return response

    async def _execute(self, parameters: Parameters, context: Context, media_type: str, *, reading: bool) -> Response:
        try:
            async with asyncio.timeout(self._request_s):
                result = await self._schema.execute(
                    parameters.query,
                    variable_values=parameters.variables,
                    context_value=context,
                    operation_name=parameters.operation_name,
                    allowed_operation_types=_READING if reading else _ANY,
                )
        except CannotGetOperationTypeError as error:
            raise Malformed(error.as_http_error_reason()) from None
        except InvalidOperationTypeError as error:
            raise Malformed(_not_here(error.operation_type, reading=reading), status=405 if reading else 400) from None
        except TimeoutError:
            message = f"Not answered within {self._request_s:g} s and given up. A change may still take effect."
            return _refusal(message, "timeout", 504, media_type)
        body = response_body(result)
        # Without `data` nothing was executed. Plain JSON says 200 even so, for proxies and clients of old.
        status = 400 if media_type == RESPONSE and "data" not in body else 200
        response = json_response(body, status=status, media_type=media_type)
        wait_s = retry_after(result.errors)
        if wait_s is not None:
            response.status_code = 429
            response.headers["retry-after"] = str(math.ceil(wait_s))
        return response

    def _stream(self, parameters: Parameters, context: Context, *, reading: bool) -> Response:
        if not self.streams.has_room(context.caller.user):
            message = "You have as many streams open as one may have; close some, or follow more by one WebSocket."
            return _refusal(message, TOO_MANY_STREAMS, 429, EVENTS)
        transport = SSETransport()
        request_notes().note_operation("subscription", refused=False)

        async def events() -> AsyncGenerator[str, None]:
            following = self._sharing.find(_asked(parameters), context)
            if following is not None:
                async with aclosing(following.texts()) as texts:
                    async for text in texts:
                        yield transport.encode_event("next", text)
                yield transport.encode_complete()
                return
            source = await self._schema.stream(
                parameters.query,
                variable_values=parameters.variables,
                context_value=context,
                operation_name=parameters.operation_name,
                allowed_operation_types={*(_READING if reading else _ANY), OperationType.SUBSCRIPTION},
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
        with self.streams.counted(caller.user), self._held_open.of_caller(caller, end):
            yield


def response_body(result: Any) -> dict[str, Any]:
    """Shape a result for the wire. `data` is left out when nothing was executed: then no error carries a path."""
    assert isinstance(result, ExecutionResult)
    body: dict[str, Any] = {}
    if result.errors:
        body["errors"] = [error.formatted for error in result.errors]
    if result.data is not None or not result.errors or any(error.path for error in result.errors):
        body["data"] = result.data
    if result.extensions:
        body["extensions"] = result.extensions
    return body


def _asked(parameters: Parameters) -> Asked:
    return Asked(text=parameters.query, variables=parameters.variables, operation_name=parameters.operation_name)


def _not_here(operation: OperationType, *, reading: bool) -> str:
    if operation is OperationType.SUBSCRIPTION:
        return f"Subscriptions need a WebSocket, or a request that accepts {EVENTS}."
    return "Mutations are taken by POST alone." if reading else f"A {operation.value} cannot be sent here."


def _refusal(message: str, code: str, status: int, media_type: str | None) -> Response:
    body = {"errors": [{"message": message, "extensions": {"code": code}}]}
    return json_response(body, status=status, media_type=RESPONSE if media_type == RESPONSE else JSON)
