"""The GraphQL endpoint over WebSocket, by the protocol graphql-transport-ws.

Each operation holds at most one message: its source is asked for the next only when the socket took the last. A client
that does not read for too long is cut off, so nothing piles up for it. It reconnects, and goes on from its number.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from datetime import timedelta
from typing import Any, Final, cast

import strawberry
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect
from strawberry.asgi import ASGIWebSocketAdapter, GraphQL
from strawberry.exceptions import ConnectionRejectionError
from strawberry.http.exceptions import WebSocketDisconnected
from strawberry.subscriptions import GRAPHQL_TRANSPORT_WS_PROTOCOL
from strawberry.subscriptions.protocols.graphql_transport_ws.handlers import BaseGraphQLTransportWSHandler, Operation

from aliquot.api.contexts import Contexts, SocketContext
from aliquot.api.encoding import json_text, json_value
from aliquot.api.held_open import HeldOpen
from aliquot.api.limits import Limits
from aliquot.api.open_counts import OpenCounts
from aliquot.api.sharing.requests import Asked
from aliquot.api.sharing.sharing import Following, Sharing
from aliquot_schema.errors import Unauthenticated

log: Final = logging.getLogger("aliquot.api")

SLOW_CLIENT: Final = 4429
"""The code with which a client that does not read is closed."""


KEY_ENDED: Final = 4401
"""The code with which a client is closed whose key was revoked or is too old, or whose user is disabled."""
TOO_MANY_SOCKETS: Final = 4430
"""The code with which a client is closed whose user has too many open."""
RIGHTS_CHANGED: Final = 1012
"""The code with which a client is closed that may do other things from now on. Clients connect again by themselves."""


class TooManySockets(Exception):
    """A user has as many WebSockets open as one may have."""


class SocketAdapter(ASGIWebSocketAdapter):
    """Sends with an end to its patience."""

    def __init__(self, view: Any, request: WebSocket, response: WebSocket) -> None:
        super().__init__(view, request, response)
        self._slow_client_s: float = view.limits.slow_client_s
        self._closing: asyncio.Task[None] | None = None

    @property
    def is_cut(self) -> bool:
        """Whether it was closed from here."""
        return self._closing is not None

    def cut(self, code: int, reason: str) -> None:
        """Close, and send nothing more from now on."""
        if self._closing is None:
            # Closing waits for room, as sending does. If the client never reads again, the server's ping ends it.
            self._closing = asyncio.create_task(self.close(code, reason))
            self._closing.add_done_callback(_note)

    async def send_json(self, message: Mapping[str, object]) -> None:
        """Send, or cut the client off.

        Raises:
            WebSocketDisconnected: the client is gone, or was cut off.
        """
        await self.patiently(self.send_text(json_text(message)))

    async def send_text(self, text: str) -> None:
        """Send a message that is encoded; wait for room as long as it takes.

        Raises:
            WebSocketDisconnected: the client is gone, or was cut off.
        """
        if self._closing is not None:
            raise WebSocketDisconnected
        try:
            await self.ws.send_text(text)
        except WebSocketDisconnect as error:
            raise WebSocketDisconnected from error

    async def patiently(self, sending: Awaitable[None]) -> None:
        """Wait for a sending, or cut the client off.

        Raises:
            WebSocketDisconnected: the client is gone, or was cut off.
        """
        try:
            async with asyncio.timeout(self._slow_client_s):
                await sending
        except TimeoutError:
            self.cut(SLOW_CLIENT, "Too slow to read")
            raise WebSocketDisconnected from None


class SocketHandler(BaseGraphQLTransportWSHandler[SocketContext, None]):
    """Takes messages of the right shape alone. A client that goes away in the middle of one is no failure."""

    async def handle(self) -> None:
        """Talk to one client, no longer than its key holds."""
        with self.context.until_closed:
            await super().handle()

    async def handle_connection_init(self, message: Any) -> None:
        """Let a client in, and close the socket when the rights end with which it came in."""
        view = cast(GraphQLSocket, self.view)
        try:
            await super().handle_connection_init(message)
        except TooManySockets:
            await self.websocket.close(TOO_MANY_SOCKETS, "Too many connections of one user")
            return
        if self.context.bearer is not None and self.connection_acknowledged:
            self.context.until_closed.enter_context(view.held_open.holding(self.context.bearer, self._end))

    async def handle_message(self, message: Any) -> None:
        """Act on one message, or close with 4400."""
        if cast(SocketAdapter, self.websocket).is_cut:
            return
        if _is_message(message):
            await super().handle_message(message)
        else:
            await self.handle_invalid_message("The message has not the shape that the protocol gives it")

    async def run_operation(self, operation: Operation[SocketContext, None]) -> None:
        """Run one operation to its end, or to the client's; what others follow too is not run again for it."""
        asked = Asked(text=operation.query, variables=operation.variables, operation_name=operation.operation_name)
        try:
            following = cast(GraphQLSocket, self.view).sharing.find(asked, self.context)
            if following is None:
                await super().run_operation(operation)
            else:
                await self._follow(following, operation)
        except WebSocketDisconnected:
            return

    async def handle_task_exception(self, error: Exception) -> None:
        """Log what is not the client's leaving."""
        if not isinstance(error, WebSocketDisconnected):
            log.error("%s: a WebSocket operation failed", self.context.caller.request_id, exc_info=error)

    async def _follow(self, following: Following, operation: Operation[SocketContext, None]) -> None:
        adapter = cast(SocketAdapter, self.websocket)
        head = f'{{"id":{json_text(operation.id)},"type":"next","payload":'
        await following.run(lambda text: adapter.send_text(f"{head}{text}}}"), patiently=adapter.patiently)
        await operation.send_operation_message({"id": operation.id, "type": "complete"})

    def _end(self, may_return: bool) -> None:
        code, reason = (RIGHTS_CHANGED, "Rights changed; connect again") if may_return else (KEY_ENDED, "Key ended")
        cast(SocketAdapter, self.websocket).cut(code, reason)


class GraphQLSocket(GraphQL[SocketContext, None]):
    """The WebSocket side of the endpoint, as an ASGI application."""

    websocket_adapter_class = SocketAdapter
    graphql_transport_ws_handler_class = SocketHandler

    def __init__(
        self, schema: strawberry.Schema, *, contexts: Contexts, sharing: Sharing, held_open: HeldOpen, limits: Limits
    ) -> None:
        super().__init__(
            schema,
            graphql_ide=None,
            subscription_protocols=(GRAPHQL_TRANSPORT_WS_PROTOCOL,),
            connection_init_wait_timeout=timedelta(seconds=limits.connection_init_s),
            max_subscriptions_per_connection=limits.operations_per_socket,
            allowed_origins=("*",),  # the guard has looked at the origin of every request
        )
        self.limits = limits
        self.sharing = sharing
        self.held_open = held_open
        self._contexts = contexts
        self.sockets = OpenCounts(per_user=limits.sockets_per_user)
        """Sockets whose clients have said who they are."""

    async def get_context(self, request: Request | WebSocket, response: Response | WebSocket) -> SocketContext:  # noqa: ARG002
        """The context of this socket; one for all of its operations."""
        return self._contexts.of_socket(request)

    async def on_ws_connect(self, context: SocketContext) -> Any:
        """Let the client in, or have it closed with 4403."""
        try:
            await self._contexts.admit(context)
        except Unauthenticated as error:
            raise ConnectionRejectionError from error
        if not self.sockets.has_room(context.caller.user):
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
        log.debug("a slow client was gone before it could be closed", exc_info=task.exception())
