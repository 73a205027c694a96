"""Streams of sessions over WebSockets: terminals and ports, for their owners; and between servers, to the leader.

The first message of a client is JSON: `{"rank": 0, "terminal": {...}}` or `{"rank": 0, "port": 8888}`. The server
answers `{"opened": true}`, or `{"error": CODE, "message": ...}` and closes. Then both sides send binary messages of at
most `FRAME_BYTES_MAX` + 5 bytes; the text `end` says that no more follow from this side. `{"rank": 0}` alone asks
whether the client may open terminals and ports of the session; the stream then ends without data.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import msgspec
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from aliquot.api.authentication import TokenAuth, caller_of
from aliquot.api.connections import OpenConnections, OpenCounts
from aliquot.api.encoding import request_id_of
from aliquot.api.limits import Limits
from aliquot.service.ports import ByteStream
from aliquot.service.sessions.streams import SessionStreams, StreamSource
from aliquot_schema.cluster.streams import FRAME_BYTES_MAX, FRAME_HEAD, StreamTarget, TerminalRequest
from aliquot_schema.errors import AliquotError, Unauthenticated, Unavailable
from aliquot_schema.ids import AgentId, KernelId

STREAM_PATH: Final = "/sessions/{session_id}/stream"
SERVERS_PATH: Final = "/servers/streams"
MESSAGE_BYTES_MAX: Final = FRAME_BYTES_MAX + FRAME_HEAD.size
OPENING_BYTES_MAX: Final = 256 * 1024
REFUSED: Final = 4400
"""Close code after an error message."""
KEY_ENDED: Final = 4401
TOO_MANY: Final = 4430
TOO_LARGE: Final = 1009
TRY_AGAIN: Final = 1012
"""Close code when the agent was lost; a terminal continues when the client connects again."""
END: Final = "end"
REASON_BYTES_MAX: Final = 100
"""Of an error in the reason of a close message, which has 123 bytes."""
READ_S: Final = 600.0
"""Longest time for which the session does not read what is sent to it. A client that leaves meanwhile is not seen."""
PAUSE_S_MAX: Final = READ_S + 60.0
"""Longest time for which a WebSocket's pong may be among messages that are not read. `READ_S` ends the stream first."""


class Opening(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """First message of a client."""

    rank: int = 0
    terminal: TerminalRequest | None = None
    port: int | None = None


class ServerOpening(msgspec.Struct, kw_only=True):
    """First message of a server that does not lead."""

    agent_id: AgentId
    kernel_id: KernelId
    target: StreamTarget


class _NoStream:
    """The stream of a client that only asked whether it may open one: it has ended."""

    async def read(self) -> bytes:
        return b""

    async def write(self, data: bytes) -> None:
        pass

    async def end(self) -> None:
        pass

    async def close(self) -> None:
        pass


class DataRateLimit:
    """Limit of the data rate of one stream: bytes above it wait."""

    def __init__(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s
        self._free_at = time.monotonic()

    async def take(self, count: int) -> None:
        """Wait until this many bytes may pass; a second's worth may pass at once."""
        now = time.monotonic()
        self._free_at = max(self._free_at, now - 1.0) + count / self._bytes_per_s
        if self._free_at > now:
            await asyncio.sleep(self._free_at - now)


class SessionStreamSocket:
    """The route of clients as an ASGI application. A browser's cookie is accepted from the server's own pages only,
    see `OriginCheck`."""

    def __init__(
        self, streams: SessionStreams, *, auth: TokenAuth, open_connections: OpenConnections, limits: Limits
    ) -> None:
        self._streams = streams
        self._auth = auth
        self._open_connections = open_connections
        self._limits = limits
        self.open = OpenCounts(per_user=limits.session_streams_per_user)
        """Open streams."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one stream, no longer than the rights of its client last."""
        socket = WebSocket(scope, receive, send)
        await socket.receive()
        authorization = socket.headers.get("authorization")
        try:
            await self._auth.resolve(authorization)
            bearer = self._auth.of_headers(authorization, socket.cookies)
        except Unauthenticated as error:
            await socket.send_denial_response(PlainTextResponse(error.message, 401))
            return
        caller = caller_of(bearer, request_id=request_id_of(socket))
        await socket.accept()
        if not self.open.may_open(caller.user):
            await socket.close(TOO_MANY, "Too many streams of one user")
            return
        session_id = str(socket.path_params["session_id"])

        async def open_stream(data: str) -> ByteStream:
            asked = msgspec.json.decode(data, type=Opening)
            if asked.terminal is None and asked.port is None:
                self._streams.check(caller, session_id, rank=asked.rank)
                return _NoStream()
            target = StreamTarget(terminal=asked.terminal, port=asked.port)
            return await self._streams.open(caller, session_id, rank=asked.rank, target=target)

        with self.open.counted(caller.user):
            relay = Relay(socket, limits=self._limits)

            def cut() -> None:
                now = self._auth.holder(caller.key_id, sign_in_id=caller.sign_in_id)
                relay.cut(may_return=now is not None)

            with self._open_connections.of_caller(caller, cut):
                await relay.run(open_stream)


class ServerStreamSocket:
    """The route of other servers: streams of this server's own agents only, so that requests cannot loop."""

    def __init__(self, source: StreamSource, *, auth: TokenAuth, limits: Limits) -> None:
        self._source = source
        self._auth = auth
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one stream; 401 without the server's token."""
        socket = WebSocket(scope, receive, send)
        await socket.receive()
        try:
            bearer = self._auth.of_headers(socket.headers.get("authorization"), {})
            if bearer.key_id is not None:
                raise Unauthenticated("this path is for other servers: send the server's token, not a user's key")
        except Unauthenticated as error:
            await socket.send_denial_response(PlainTextResponse(error.message, 401))
            return
        await socket.accept()

        async def open_stream(data: str) -> ByteStream:
            asked = msgspec.json.decode(data, type=ServerOpening)
            return await self._source.open_stream(asked.agent_id, asked.kernel_id, asked.target)

        await Relay(socket, limits=self._limits).run(open_stream)


class _TooLarge(Exception):
    """A message is above its limit."""


class Relay:
    """Carries one stream between a WebSocket and an agent."""

    def __init__(self, socket: WebSocket, *, limits: Limits) -> None:
        self._socket = socket
        self._limits = limits
        self._pace = DataRateLimit(limits.stream_bytes_per_s)
        self._cut = asyncio.Event()
        self._may_return = False

    def cut(self, *, may_return: bool) -> None:
        """The rights of the client have ended, or changed: then it may connect again with the new ones."""
        self._may_return = may_return
        self._cut.set()

    async def run(self, open_stream: Callable[[str], Awaitable[ByteStream]]) -> None:
        """Open the stream that the client asks for, and carry it until either side ends."""
        try:
            stream = await self._opened(open_stream)
        except (WebSocketDisconnect, TimeoutError):
            stream = None
        if stream is None:
            return
        tasks: list[asyncio.Task[Any]] = [
            asyncio.create_task(work) for work in (self._up(stream), self._down(stream), self._cut.wait())
        ]
        code, reason = 1000, ""
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            code, reason = self._end(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with suppress(AliquotError):
                await stream.close()
        await self._close(code, reason)

    async def _opened(self, open_stream: Callable[[str], Awaitable[ByteStream]]) -> ByteStream | None:
        async with asyncio.timeout(self._limits.connection_init_s):
            message = await self._socket.receive()
        data = message.get("text")
        if data is None or len(data) > OPENING_BYTES_MAX:
            await self._close(TOO_LARGE if data else REFUSED, "The first message is not valid")
            return None
        try:
            stream = await open_stream(data)
        except (AliquotError, msgspec.MsgspecError, UnicodeError) as error:
            code = error.code if isinstance(error, AliquotError) else "invalid_request"
            text = error.message if isinstance(error, AliquotError) else f"the first message is not valid: {error}"
            await self._socket.send_text(msgspec.json.encode({"error": code, "message": text}).decode())
            await self._close(REFUSED, code)
            return None
        try:
            await self._socket.send_text('{"opened":true}')
        except BaseException:
            with suppress(AliquotError):
                await stream.close()
            raise
        return stream

    async def _up(self, stream: ByteStream) -> None:
        """From the client, until it disconnects."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect
            data = message.get("bytes")
            if data is None:
                if message.get("text") != END:
                    raise _TooLarge
                await stream.end()
                # The client's close still has to be seen.
                await self._until_closed()
            elif len(data) > MESSAGE_BYTES_MAX:
                raise _TooLarge
            else:
                async with asyncio.timeout(READ_S):
                    await self._pace.take(len(data))
                    await stream.write(data)

    async def _until_closed(self) -> None:
        while (await self._socket.receive())["type"] != "websocket.disconnect":
            pass
        raise WebSocketDisconnect

    async def _down(self, stream: ByteStream) -> None:
        """To the client, to the end of the stream."""
        while data := await stream.read():
            await self._pace.take(len(data))
            await self._socket.send_bytes(data)
        await self._socket.send_text(END)

    def _end(self, tasks: list[asyncio.Task[Any]]) -> tuple[int, str]:
        if tasks[2].done():
            return (TRY_AGAIN, "Rights changed; connect again") if self._may_return else (KEY_ENDED, "Key ended")
        for task in tasks[:2]:
            error = task.exception() if task.done() and not task.cancelled() else None
            match error:
                case None | WebSocketDisconnect():
                    continue
                case _TooLarge():
                    return TOO_LARGE, f"Messages have at most {MESSAGE_BYTES_MAX} bytes"
                case TimeoutError():
                    return TRY_AGAIN, f"The session has read nothing for {READ_S:g} s; connect again"
                case Unavailable():
                    return (
                        TRY_AGAIN,
                        f"{error.message.encode()[:REASON_BYTES_MAX].decode(errors='ignore')}; connect again",
                    )
                case AliquotError():
                    return REFUSED, error.code
                case _:
                    raise error
        return 1000, ""

    async def _close(self, code: int, reason: str) -> None:
        with suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
            async with asyncio.timeout(self._limits.slow_client_s):
                await self._socket.close(code, reason)
