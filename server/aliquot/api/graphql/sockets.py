"""GraphQL over WebSocket, by the protocol graphql-transport-ws.

Each operation buffers at most one message: its source is asked for the next only when the socket has taken the last. A
client that does not read for too long is disconnected; it reconnects and continues from its number.
"""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Mapping
from datetime import timedelta
from typing import Any, Final, cast

import strawberry
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState
from strawberry.asgi import ASGIWebSocketAdapter, GraphQL
from strawberry.exceptions import ConnectionRejectionError
from strawberry.http.exceptions import NonJsonMessageReceived, NonTextMessageReceived, WebSocketDisconnected
from strawberry.subscriptions import GRAPHQL_TRANSPORT_WS_PROTOCOL
from strawberry.subscriptions.protocols.graphql_transport_ws.handlers import BaseGraphQLTransportWSHandler, Operation

from aliquot.api.connections import OpenConnections, OpenCounts
from aliquot.api.context import Contexts, SocketContext
from aliquot.api.encoding import json_text, json_value, too_large_answer
from aliquot.api.graphql.shared_subscriptions import BroadcastReader, OperationRequest, SharedSubscriptions
from aliquot.api.limits import BodySize, BodyTooLarge, Limits
from aliquot_schema.errors import Unauthenticated

log: Final = logging.getLogger("aliquot.api")

SLOW_CLIENT: Final = 4429
"""Close code for a client that does not read."""


KEY_ENDED: Final = 4401
"""Close code when the key was revoked or has expired, or its user is disabled."""
TOO_MANY_SOCKETS: Final = 4430
"""Close code when the user has too many sockets open."""
TOO_LARGE: Final = 1009
"""Close code for a message above its limit."""
REASON_BYTES_MAX: Final = 123
"""Limit of a close reason (RFC 6455, 5.5)."""
CONTEXT: Final = "aliquot.context"
"""Key of the context in a connection's scope."""
RIGHTS_CHANGED: Final = 1012
"""Close code when the rights have changed. Clients reconnect by themselves."""


class TooManySockets(Exception):
    """The user has reached the limit of open WebSockets."""


class SocketAdapter(ASGIWebSocketAdapter):
    """Sends with a time limit."""

    def __init__(self, view: Any, request: WebSocket, response: WebSocket) -> None:
        super().__init__(view, request, response)
        self._limits: Limits = view.limits
        self._slow_client_s = self._limits.slow_client_s
        self._closing: asyncio.Task[None] | None = None

    async def iter_json(self, *, ignore_parsing_errors: bool = False) -> AsyncGenerator[object, None]:  # noqa: ARG002
        """Received messages; one above its limit closes the socket before it is decoded.

        Raises:
            NonJsonMessageReceived, NonTextMessageReceived: it cannot be decoded.
        """
        try:
            while self.ws.application_state != WebSocketState.DISCONNECTED:
                text = await self.ws.receive_text()
                await BodySize.of_caller(self.ws.scope[CONTEXT].caller, self._limits).check(text)
                yield json_value(text)
        except BodyTooLarge as error:
            await self.in_time(self.close(TOO_LARGE, str(error)[:REASON_BYTES_MAX]))
        except json.JSONDecodeError as error:
            raise NonJsonMessageReceived from error
        except KeyError as error:
            raise NonTextMessageReceived from error
        except WebSocketDisconnect:
            pass

    @property
    def is_cut(self) -> bool:
        """Whether the server has closed it."""
        return self._closing is not None

    def cut(self, code: int, reason: str) -> None:
        """Close, and send nothing more."""
        if self._closing is None:
            # Closing waits for the client, as sending does. If it never reads again, the server's ping ends it.
            self._closing = asyncio.create_task(self.close(code, reason))
            self._closing.add_done_callback(_note)

    async def send_json(self, message: Mapping[str, object]) -> None:
        """Send, or disconnect a slow client.

        Raises:
            WebSocketDisconnected: the client is gone or was disconnected.
        """
        text = json_text(message)
        if message.get("type") == "next" and len(text) > self._limits.answer_bytes:
            payload = too_large_answer(self._limits.answer_bytes, is_change=False)
            text = json_text({"id": message["id"], "type": "next", "payload": payload})
        await self.in_time(self.send_text(text))

    async def send_text(self, text: str) -> None:
        """Send an encoded message; waits for the client as long as it takes.

        Raises:
            WebSocketDisconnected: the client is gone or was disconnected.
        """
        if self._closing is not None:
            raise WebSocketDisconnected
        try:
            await self.ws.send_text(text)
        except WebSocketDisconnect as error:
            raise WebSocketDisconnected from error

    async def in_time(self, sending: Awaitable[None]) -> None:
        """Await a sending with a time limit, and disconnect a slow client.

        Raises:
            WebSocketDisconnected: the client is gone or was disconnected.
        """
        try:
            async with asyncio.timeout(self._slow_client_s):
                await sending
        except TimeoutError:
            self.cut(SLOW_CLIENT, "Too slow to read")
            raise WebSocketDisconnected from None


class SocketHandler(BaseGraphQLTransportWSHandler[SocketContext, None]):
    """Accepts only well-formed messages. A disconnect in the middle of one is not a failure."""

    async def handle(self) -> None:
        """Serve one client, no longer than its rights last."""
        with self.context.until_closed:
            await super().handle()

    async def handle_connection_init(self, message: Any) -> None:
        """Authenticate a client, and close the socket when its rights end."""
        view = cast(GraphQLSocket, self.view)
        try:
            await super().handle_connection_init(message)
        except TooManySockets:
            await self.websocket.close(TOO_MANY_SOCKETS, "Too many connections of one user")
            return
        if self.context.bearer is not None and self.connection_acknowledged:
            self.context.until_closed.enter_context(view.open_connections.holding(self.context.bearer, self._end))

    async def handle_message(self, message: Any) -> None:
        """Process one message, or close with 4400."""
        if cast(SocketAdapter, self.websocket).is_cut:
            return
        if _is_message(message):
            await super().handle_message(message)
        else:
            await self.handle_invalid_message("The message does not have the form that graphql-transport-ws requires")

    async def run_operation(self, operation: Operation[SocketContext, None]) -> None:
        """Run one operation until it ends or the client ends it; shared subscriptions are not executed again."""
        asked = OperationRequest(
            text=operation.query, variables=operation.variables, operation_name=operation.operation_name
        )
        try:
            following = cast(GraphQLSocket, self.view).sharing.find(asked, self.context)
            if following is None:
                await super().run_operation(operation)
            else:
                await self._follow(following, operation)
        except WebSocketDisconnected:
            return

    async def handle_task_exception(self, error: Exception) -> None:
        """Log failures other than disconnects."""
        if not isinstance(error, WebSocketDisconnected):
            log.error("%s: a WebSocket operation failed", self.context.caller.request_id, exc_info=error)

    async def _follow(self, following: BroadcastReader, operation: Operation[SocketContext, None]) -> None:
        adapter = cast(SocketAdapter, self.websocket)
        head = f'{{"id":{json_text(operation.id)},"type":"next","payload":'
        await following.run(lambda text: adapter.send_text(f"{head}{text}}}"), in_time=adapter.in_time)
        await operation.send_operation_message({"id": operation.id, "type": "complete"})

    def _end(self, may_return: bool) -> None:
        code, reason = (RIGHTS_CHANGED, "Rights changed; connect again") if may_return else (KEY_ENDED, "Key ended")
        cast(SocketAdapter, self.websocket).cut(code, reason)


class GraphQLSocket(GraphQL[SocketContext, None]):
    """The WebSocket endpoint as an ASGI application."""

    websocket_adapter_class = SocketAdapter
    graphql_transport_ws_handler_class = SocketHandler

    def __init__(
        self,
        schema: strawberry.Schema,
        *,
        contexts: Contexts,
        sharing: SharedSubscriptions,
        open_connections: OpenConnections,
        limits: Limits,
    ) -> None:
        super().__init__(
            schema,
            graphql_ide=None,
            subscription_protocols=(GRAPHQL_TRANSPORT_WS_PROTOCOL,),
            connection_init_wait_timeout=timedelta(seconds=limits.connection_init_s),
            max_subscriptions_per_connection=limits.operations_per_socket,
            allowed_origins=("*",),  # `OriginCheck` has checked the origin of every request
        )
        self.limits = limits
        self.sharing = sharing
        self.open_connections = open_connections
        self._contexts = contexts
        self.sockets = OpenCounts(per_user=limits.sockets_per_user)
        """Authenticated sockets."""

    async def get_context(self, request: Request | WebSocket, response: Response | WebSocket) -> SocketContext:  # noqa: ARG002
        """The context of this socket, shared by all of its operations."""
        context = request.scope[CONTEXT] = self._contexts.of_socket(request)
        return context

    async def on_ws_connect(self, context: SocketContext) -> Any:
        """Authenticate the client, or close with 4403."""
        try:
            await self._contexts.admit(context)
        except Unauthenticated as error:
            raise ConnectionRejectionError from error
        if not self.sockets.may_open(context.caller.user):
            raise TooManySockets
        context.until_closed.enter_context(self.sockets.counted(context.caller.user))
        return await super().on_ws_connect(context)

    def encode_json(self, data: object) -> str:
        """Encode a message."""
        return json_text(data)

    def decode_json(self, data: str | bytes) -> object:
        """Decode a message."""
        return json_value(data)


def _is_message(message: object) -> bool:
    if not isinstance(message, dict):
        return False
    kind = message.get("type")
    if kind not in ("subscribe", "complete"):
        return isinstance(kind, str)
    return isinstance(message.get("id"), str) and (kind == "complete" or _is_request(message.get("payload")))


def _is_request(payload: object) -> bool:
    return (
        isinstance(payload, dict)
        and isinstance(payload.get("query"), str)
        and isinstance(payload.get("variables"), dict | None)
        and isinstance(payload.get("operationName"), str | None)
    )


def _note(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and task.exception() is not None:
        log.debug("a slow client disconnected before it could be closed", exc_info=task.exception())
