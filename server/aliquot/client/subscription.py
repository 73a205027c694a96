"""Subscription over its own WebSocket.

Source: the protocol graphql-transport-ws, https://github.com/enisdenjo/graphql-ws/blob/master/PROTOCOL.md
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from aliquot.client.errors import ClientFailure, GraphQLFault, ServerUnreachable, SubscriptionClosed, UnexpectedAnswer
from aliquot.client.requests import unexpected
from aliquot_schema.errors import Unauthenticated

PROTOCOL: Final = Subprotocol("graphql-transport-ws")
OPERATION: Final = "1"
"""Any id will do: a socket has only one operation."""
KEY_ENDED: Final = 4401
UNAUTHENTICATED: Final = 4403
CLOSE_S_MAX: Final = 1.0
"""Unread messages may precede the server's close frame, so leaving early does not wait for it for long."""
MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024


class Subscription:
    """Opens the socket on entry and closes it on exit."""

    def __init__(
        self, url: str, token: str, *, direct: bool, timeout_s: float, tls: ssl.SSLContext | None = None
    ) -> None:
        self._token = token
        self._timeout_s = timeout_s
        self._connecting = connect(
            url,
            subprotocols=[PROTOCOL],
            compression=None,
            proxy=None if direct else True,
            open_timeout=timeout_s,
            close_timeout=CLOSE_S_MAX,
            max_size=MESSAGE_BYTES_MAX,
            ssl=(tls or True) if url.startswith("wss:") else None,
        )
        self._socket: ClientConnection

    async def follow(self, query: str, variables: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Start the operation and yield the `data` of each of its results."""
        try:
            await self._send(
                {"id": OPERATION, "type": "subscribe", "payload": {"query": query, "variables": variables}}
            )
            async for text in self._socket:
                message = _decode(text)
                if message["type"] == "complete":
                    return
                if message["type"] == "ping":
                    await self._send({"type": "pong"})
                elif message["type"] != "pong":
                    yield _data(message)
        except ConnectionClosed as error:
            raise _closed(error) from error
        raise SubscriptionClosed(self._socket.close_code, self._socket.close_reason or "")

    async def __aenter__(self) -> Self:
        try:
            self._socket = await self._connecting
        except InvalidStatus as error:
            if error.response.status_code == 401:
                raise Unauthenticated("the server does not accept this token") from error
            raise unexpected(error.response.status_code, b"the socket was refused", url=self._connecting.uri) from error
        except (OSError, InvalidHandshake) as error:
            raise ServerUnreachable(str(error) or type(error).__name__) from error
        try:
            await self._initialize()
        except BaseException:
            await self._socket.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(ConnectionClosed):
            await self._send({"id": OPERATION, "type": "complete"})
        await self._socket.close()

    async def _initialize(self) -> None:
        await self._send({"type": "connection_init", "payload": {"Authorization": f"Bearer {self._token}"}})
        try:
            async with asyncio.timeout(self._timeout_s):
                message = _decode(await self._socket.recv())
        except ConnectionClosed as error:
            raise _closed(error) from error
        except TimeoutError as error:
            raise ServerUnreachable(f"no answer to connection_init in {self._timeout_s:g} s") from error
        if message["type"] != "connection_ack":
            raise UnexpectedAnswer(101, f"{message['type']} instead of connection_ack")

    async def _send(self, message: dict[str, Any]) -> None:
        await self._socket.send(orjson.dumps(message).decode())


def _decode(text: str | bytes) -> dict[str, Any]:
    message = orjson.loads(text)
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise UnexpectedAnswer(101, "a message without a type")
    return message


def _data(message: Mapping[str, Any]) -> dict[str, Any]:
    """The `data` of a `next` message; an `error` message has the errors as its payload."""
    payload = message.get("payload")
    if message["type"] == "error" and isinstance(payload, list):
        raise GraphQLFault(payload)
    if message["type"] != "next" or not isinstance(payload, dict):
        raise UnexpectedAnswer(101, f"a message of type {message['type']}")
    if payload.get("errors"):
        raise GraphQLFault(payload["errors"])
    data: dict[str, Any] = payload["data"]
    return data


def _closed(error: ConnectionClosed) -> ClientFailure | Unauthenticated:
    code, reason = (error.rcvd.code, error.rcvd.reason) if error.rcvd else (None, "")
    if code == KEY_ENDED:
        return Unauthenticated("the key was revoked or has expired, or its user is disabled")
    if code == UNAUTHENTICATED:
        return Unauthenticated(reason or "the server does not accept this token")
    return SubscriptionClosed(code, reason)
