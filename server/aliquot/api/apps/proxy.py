"""HTTP and WebSockets between a browser and an app, over a stream to its port. httpcore and websockets speak the
protocols; bodies pass in pieces, and a side that does not read slows the other one down."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import httpcore
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from aliquot.api.apps.headers import AppRefused, Header, to_app, to_browser
from aliquot.api.session_streams import TRY_AGAIN, DataRateLimit
from aliquot.service.ports import ByteStream
from aliquot_schema.cluster.streams import FRAME_BYTES_MAX
from aliquot_schema.errors import AliquotError

BODY_BYTES_MAX: Final = 4 << 30
"""Of a request; uploads to notebooks are large."""
BODY_PIECE_S: Final = 60.0
"""Longest pause within the body of a request."""
ANSWER_S: Final = 600.0
"""Longest time until an answer begins, between its pieces, and for which the app does not read what is sent to it."""
MESSAGE_BYTES_MAX: Final = 16 << 20
"""One WebSocket message, in either direction."""
OPEN_S: Final = 20.0
CLOSE_S: Final = 2.0
_OWN_CLOSE: Final = frozenset({1005, 1006, 1015})
"""Close codes that are never sent."""


class _PortStream(httpcore.AsyncNetworkStream):
    """The stream to the app's port, as httpcore wants it."""

    def __init__(self, stream: ByteStream, pace: DataRateLimit) -> None:
        self._stream = stream
        self._pace = pace
        self._kept = b""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if not self._kept:
            try:
                async with asyncio.timeout(timeout):
                    self._kept = await self._stream.read()
            except TimeoutError:
                raise httpcore.ReadTimeout("the app does not answer") from None
            except AliquotError as error:
                raise httpcore.ReadError(error.message) from None
            await self._pace.take(len(self._kept))
        data, self._kept = self._kept[:max_bytes], self._kept[max_bytes:]
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            async with asyncio.timeout(timeout):
                await _write(self._stream, buffer, self._pace)
        except TimeoutError:
            raise httpcore.WriteTimeout("the app does not read") from None
        except AliquotError as error:
            raise httpcore.WriteError(error.message) from None

    async def aclose(self) -> None:
        for work in (self._stream.end, self._stream.close):  # without its end, the app's connection would be reset
            with suppress(AliquotError):
                await work()

    def get_extra_info(self, info: str) -> Any:
        return {"is_readable": False}.get(info)


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
        self._is_read = asyncio.Event()
        self.has_begun = False
        """Whether the answer was begun, so that no other can be sent."""

    async def run(self, stream: ByteStream, pace: DataRateLimit, cut: asyncio.Event) -> None:
        """Carry it, until the browser leaves or `cut` is set.

        Raises:
            AppRefused: the app gives no answer.
        """
        tasks = [asyncio.create_task(work) for work in (self._carry(stream, pace), self._gone(), cut.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0].done():
                tasks[0].result()
            elif cut.is_set():
                raise AppRefused(401, "Sign in first: the rights of the sign-in have changed.")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await _PortStream(stream, pace).aclose()

    async def _carry(self, stream: ByteStream, pace: DataRateLimit) -> None:
        headers = to_app(self._scope, self._host, self._scope["scheme"], token=self._token, jar=self._jar)
        body = self._body_headers()
        request = httpcore.Request(
            self._scope["method"],
            httpcore.URL(scheme=b"http", host=self._host.encode(), port=None, target=self._target),
            headers=[*headers, *body, (b"connection", b"close")],
            content=self._body() if body else self._nothing(),
            extensions={"timeout": {"read": ANSWER_S, "write": ANSWER_S}},
        )
        origin = httpcore.Origin(b"http", self._host.encode(), 80)
        try:
            async with httpcore.AsyncHTTP11Connection(origin, _PortStream(stream, pace)) as connection:
                answer = await connection.handle_async_request(request)
                try:
                    await self._answer(answer)
                finally:
                    await answer.aclose()
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            raise AppRefused(502, f"The app gave no valid answer: {error}") from None

    async def _answer(self, answer: httpcore.Response) -> None:
        if answer.status > 599:
            raise AppRefused(502, f"The app gave no valid answer: the status {answer.status}")
        headers = to_browser(answer.headers, self._jar, status=answer.status)
        self.has_begun = True
        await self._send({"type": "http.response.start", "status": answer.status, "headers": headers})
        async for piece in answer.aiter_stream():
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def _body_headers(self) -> list[Header]:
        """How the body is framed; empty = there is none."""
        given = dict(self._scope["headers"])
        length = given.get(b"content-length")
        if length is not None:
            if not length.isdigit():
                raise AppRefused(400, "Content-Length is not a number.")
            if int(length) > BODY_BYTES_MAX:
                raise AppRefused(413, f"The body has more than {BODY_BYTES_MAX} bytes.")
            return [(b"content-length", length)]
        return [(b"transfer-encoding", b"chunked")] if b"transfer-encoding" in given else []

    async def _body(self) -> AsyncIterator[bytes]:
        size, more = 0, True
        while more:
            try:
                async with asyncio.timeout(BODY_PIECE_S):
                    message = await self._receive()
            except TimeoutError:
                raise AppRefused(408, f"No part of the body arrived for {BODY_PIECE_S:g} seconds.") from None
            if message["type"] == "http.disconnect":
                raise AppRefused(400, "The browser left.")
            size += len(message.get("body", b""))
            if size > BODY_BYTES_MAX:
                raise AppRefused(413, f"The body has more than {BODY_BYTES_MAX} bytes.")
            more = message.get("more_body", False)
            yield message.get("body", b"")
        self._is_read.set()

    async def _nothing(self) -> AsyncIterator[bytes]:
        self._is_read.set()
        yield b""

    async def _gone(self) -> None:
        """Until the browser leaves; it is heard after the whole body."""
        await self._is_read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


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
                await self._browser.accept(app.subprotocol)
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
        tasks = [asyncio.create_task(work) for work in (self._up(app), self._down(app), cut.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if tasks[2].done() and not tasks[2].cancelled():
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
            await _write(stream, data, pace)
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
        await _PortStream(stream, pace).aclose()


async def _close(app: ClientConnection, code: int = 1000, reason: str = "") -> None:
    """Close a WebSocket to an app, which need not read that."""
    try:
        async with asyncio.timeout(2 * CLOSE_S):
            await app.close(code, reason)
    except TimeoutError:
        app.transport.abort()


async def _write(stream: ByteStream, data: bytes, pace: DataRateLimit) -> None:
    for start in range(0, len(data), FRAME_BYTES_MAX):
        piece = data[start : start + FRAME_BYTES_MAX]
        await pace.take(len(piece))
        await stream.write(piece)
