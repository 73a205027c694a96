"""HTTP and WebSockets between a browser and an app, over a stream to its port. Bodies pass in pieces, and a side that
does not read slows the other one down."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import h11
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from aliquot.api.apps.app_connection import ANSWER_S, NOT_VALID, AppConnection, end, write
from aliquot.api.apps.headers import (
    BODY_BYTES_MAX,
    AppRefused,
    Header,
    body_headers,
    cookies_to_browser,
    to_app,
    to_browser,
)
from aliquot.api.session_streams import TRY_AGAIN, DataRateLimit
from aliquot.service.ports import ByteStream
from aliquot_schema.cluster.streams import FRAME_BYTES_MAX
from aliquot_schema.errors import AliquotError

BODY_PIECE_S: Final = 60.0
"""Longest pause within the body of a request."""
MESSAGE_BYTES_MAX: Final = 16 << 20
"""One WebSocket message, in either direction."""
OPEN_S: Final = 20.0
CLOSE_S: Final = 2.0
_OWN_CLOSE: Final = frozenset({1005, 1006, 1015})
"""Close codes that are never sent."""


class HttpExchange:
    """One request to an app, and its answer."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, *, host: str, target: bytes, token: str, jar: str = ""
    ) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._host = host
        self._target = target
        self._token = token
        self._jar = jar
        self.has_begun = False
        """Whether the answer was begun, so that no other can be sent."""

    async def run(self, stream: ByteStream, pace: DataRateLimit, cut: asyncio.Event) -> None:
        """Carry it, until the answer is complete, the browser leaves or `cut` is set.

        Raises:
            AppRefused: the app gives no answer.
        """
        try:
            framing = body_headers(self._scope)
            app = AppConnection(stream, pace, self._request(framing))
            up = self._up(app, has_body=bool(framing))
            ended = await _first_ended(self._down(app), up, self._refuse_once(cut))
            ended.result()
        except h11.ProtocolError as error:
            raise AppRefused(502, f"{NOT_VALID}: {error}") from None
        finally:
            await end(stream)

    async def _refuse_once(self, cut: asyncio.Event) -> None:
        await cut.wait()
        raise AppRefused(401, "Sign in first: the rights of the sign-in have changed.")

    def _request(self, framing: list[Header]) -> h11.Request:
        headers = to_app(self._scope, self._host, self._scope["scheme"], token=self._token, jar=self._jar)
        headers += [*framing, (b"connection", b"close")]
        return h11.Request(method=self._scope["method"], target=self._target, headers=headers)

    async def _up(self, app: AppConnection, *, has_body: bool) -> None:
        """Send the request; then until the browser leaves, which is heard after the whole body."""
        with suppress(AliquotError):  # an app may answer and close before it has read everything
            await app.send()
            if has_body:
                async for piece in self._body():
                    if piece is None:
                        return
                    await app.send(h11.Data(data=piece))
            await app.send(h11.EndOfMessage())
        app.sent()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _down(self, app: AppConnection) -> None:
        """Pass the answer on; it may begin, and end, before the request does."""
        async for event in app.answer():
            if isinstance(event, h11.Data):
                await self._send({"type": "http.response.body", "body": bytes(event.data), "more_body": True})
                continue
            if event.status_code > 599:
                raise AppRefused(502, f"{NOT_VALID}: the status {event.status_code}")
            headers = to_browser(event.headers, self._jar, status=event.status_code)
            self.has_begun = True
            await self._send({"type": "http.response.start", "status": event.status_code, "headers": headers})
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _body(self) -> AsyncIterator[bytes | None]:
        """The body; None = the browser has left before its end."""
        size, more = 0, True
        while more:
            try:
                async with asyncio.timeout(BODY_PIECE_S):
                    message = await self._receive()
            except TimeoutError:
                raise AppRefused(408, f"No part of the body arrived for {BODY_PIECE_S:g} seconds.") from None
            if message["type"] == "http.disconnect":
                yield None
                return
            size += len(message.get("body", b""))
            if size > BODY_BYTES_MAX:
                raise AppRefused(413, f"The body has more than {BODY_BYTES_MAX} bytes.")
            more = message.get("more_body", False)
            yield message.get("body", b"")


class SocketExchange:
    """One WebSocket to an app."""

    def __init__(self, browser: WebSocket, *, host: str, target: bytes, token: str, jar: str = "") -> None:
        self._browser = browser
        self._host = host
        self._target = target
        self._token = token
        self._jar = jar

    async def run(self, stream: ByteStream, pace: DataRateLimit, cut: asyncio.Event) -> None:
        """Carry it, until a side closes or `cut` is set.

        Raises:
            AppRefused: the app does not accept it.
        """
        async with _local_socket(stream, pace) as near:
            app = await self._opened(near)
            try:
                answered = () if app.response is None else app.response.headers.raw_items()
                given = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answered]
                await self._browser.accept(app.subprotocol, cookies_to_browser(given, self._jar))
                code, reason = await self._carry(app, cut)
            finally:
                await _close(app)
        with suppress(RuntimeError, WebSocketDisconnect):
            await self._browser.close(1000 if code in _OWN_CLOSE else code, reason)

    async def _opened(self, near: socket.socket) -> ClientConnection:
        if not self._target.startswith(b"/"):
            raise AppRefused(400, "The target of the request is not a path.")
        scheme = self._browser.scope["scheme"].replace("ws", "http")
        headers = to_app(self._browser.scope, self._host, scheme, token=self._token, jar=self._jar)
        own = {b"host", b"origin", b"user-agent"}
        asked = [Subprotocol(name) for name in self._browser.scope.get("subprotocols", ())]
        given = {name.lower(): value.decode("latin-1") for name, value in self._browser.scope["headers"]}
        try:
            return await connect(
                f"ws://{self._host}{self._target.decode('ascii')}",
                sock=near,
                origin=given.get(b"origin"),
                additional_headers=[(k.decode("latin-1"), v.decode("latin-1")) for k, v in headers if k not in own],
                subprotocols=asked or None,
                user_agent_header=given.get(b"user-agent"),
                compression=None,
                proxy=None,
                open_timeout=OPEN_S,
                ping_interval=None,
                close_timeout=CLOSE_S,
                max_size=MESSAGE_BYTES_MAX,
            )
        except InvalidStatus as error:
            raise AppRefused(error.response.status_code, "The app refused the WebSocket.") from None
        except (OSError, InvalidHandshake, EOFError, ValueError) as error:
            raise AppRefused(502, f"The app refused the WebSocket: {error}") from None

    async def _carry(self, app: ClientConnection, cut: asyncio.Event) -> tuple[int, str]:
        await _first_ended(self._up(app), self._down(app), cut.wait())
        if cut.is_set():
            return 4401, "Rights changed"
        received = app.protocol.close_rcvd
        return (TRY_AGAIN, "The app was lost") if received is None else (received.code, received.reason)

    async def _up(self, app: ClientConnection) -> None:
        with suppress(ConnectionClosed):
            while (message := await self._browser.receive())["type"] != "websocket.disconnect":
                data = message.get("bytes")
                data = message.get("text", "") if data is None else data
                if len(data) > MESSAGE_BYTES_MAX:
                    await _close(app, 1009)
                    return
                async with asyncio.timeout(ANSWER_S):
                    await app.send(data)
            code = message.get("code", 1005)
            await _close(app, 1000 if code in _OWN_CLOSE else code, message.get("reason", ""))

    async def _down(self, app: ClientConnection) -> None:
        async for data in app:
            await (self._browser.send_text(data) if isinstance(data, str) else self._browser.send_bytes(data))


@asynccontextmanager
async def _local_socket(stream: ByteStream, pace: DataRateLimit) -> AsyncIterator[socket.socket]:
    """A connected socket of this process whose other end is the stream."""
    near, far = socket.socketpair()
    near.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=far)

    async def up() -> None:
        while data := await reader.read(FRAME_BYTES_MAX):
            await write(stream, data, pace)
        await stream.end()

    async def down() -> None:
        while data := await stream.read():
            await pace.take(len(data))
            writer.write(data)
            await writer.drain()
        if not writer.is_closing():
            writer.write_eof()

    async def ending(work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except (AliquotError, OSError):
            writer.close()  # the WebSocket sees that its connection was lost

    tasks = [asyncio.create_task(ending(work)) for work in (up, down)]
    try:
        yield near
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        writer.close()
        near.close()
        await end(stream)


async def _first_ended(*works: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
    """Run them until one ends, by itself or with an error; the others are canceled. Returns the first that has."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return next(task for task in tasks if task in ended)


async def _close(app: ClientConnection, code: int = 1000, reason: str = "") -> None:
    """Close a WebSocket to an app, which need not read that."""
    try:
        async with asyncio.timeout(2 * CLOSE_S):
            await app.close(code, reason)
    except TimeoutError:
        app.transport.abort()
