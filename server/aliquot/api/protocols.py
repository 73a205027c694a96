"""Protocols of the HTTP listener: uvicorn's, with limits on clients that are slow or send without an end.

A client that takes too long to send its headers, or to read its answer, is disconnected, and so is one that goes on
sending a body after its request was answered.
"""

import asyncio
import logging
from typing import Any, Final

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets import http11

from aliquot.api.limits import Limits
from aliquot.api.middleware import BODY_BYTES_PER_S_MIN
from aliquot.api.session_streams import PAUSE_S_MAX

log: Final = logging.getLogger("aliquot.api")

HEADERS_S: Final = 20.0
"""Time from the connection, or from the first byte of a request, to the end of the headers."""
REST_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of a body that is still sent after the response. A client that closes only then reads the response."""


HEADER_LINE_BYTES_MAX: Final = 64 * 1024
"""Of a WebSocket's request, as of others; the cookies of all apps on the ports of one host are one line."""
http11.MAX_LINE_LENGTH = HEADER_LINE_BYTES_MAX


class HeaderTimeoutHttp(HttpToolsProtocol):
    """uvicorn's HTTP protocol, whose own timeout applies only between requests, with timeouts within one."""

    headers_s = HEADERS_S
    unread_s = Limits().slow_client_s
    _headers_timer: asyncio.TimerHandle | None = None
    rest_bytes = REST_BYTES_MAX
    rest_s = Limits().body_s
    _read_timer: asyncio.TimerHandle | None = None
    _rest_timer: asyncio.TimerHandle | None = None
    """Runs while a body is received after its response was sent."""
    _rest_bytes = 0
    _rest_until = 0.0

    @override
    def connection_made(self, transport: Any) -> None:
        """Start the header timeout."""
        super().connection_made(transport)
        self._start_headers_timer()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timeouts."""
        self._stop_headers_timer()
        self._stop_read_timer()
        self._stop_rest_timer()
        super().connection_lost(exc)

    @override
    def on_message_begin(self) -> None:
        """Restart the header timeout for this request."""
        self._stop_headers_timer()
        self._start_headers_timer()
        super().on_message_begin()

    @override
    def on_headers_complete(self) -> None:
        """Stop the header timeout."""
        self._stop_headers_timer()
        super().on_headers_complete()

    @override
    def pause_writing(self) -> None:
        """Start the read timeout: the client has not read what was sent."""
        super().pause_writing()
        self._stop_read_timer()
        self._read_timer = self.loop.call_later(self.unread_s, self._disconnect)

    @override
    def resume_writing(self) -> None:
        """Stop the read timeout."""
        self._stop_read_timer()
        super().resume_writing()

    @override
    def on_response_complete(self) -> None:
        """Start the timeout of a body that is not needed any more, such as that of a refused request."""
        super().on_response_complete()
        if self.cycle.response_complete and self.cycle.more_body and not self.transport.is_closing():
            self._rest_bytes = self.rest_bytes
            self._rest_until = self.loop.time() + self.rest_s
            self._check_rest()

    @override
    def on_body(self, body: bytes) -> None:
        """Drop a body that is not needed, up to a limit."""
        super().on_body(body)
        if self._rest_timer is None:
            return
        self._rest_bytes -= len(body)
        if self._rest_bytes < 0:
            self.transport.abort()
        allowed_s = len(body) / BODY_BYTES_PER_S_MIN
        self._rest_until = min(self._rest_until + allowed_s, self.loop.time() + self.rest_s)

    @override
    def on_message_complete(self) -> None:
        """Wait for the next request again when such a body has ended."""
        super().on_message_complete()
        if self._rest_timer is not None:
            self._stop_rest_timer()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _check_rest(self) -> None:
        if self.loop.time() >= self._rest_until:
            self.transport.abort()
        else:
            self._rest_timer = self.loop.call_at(self._rest_until, self._check_rest)

    def _disconnect(self) -> None:
        log.info("disconnected a client that did not read its answer for %g s", self.unread_s)
        self.transport.abort()  # close() would wait until the client has read the buffer

    def _stop_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _stop_rest_timer(self) -> None:
        if self._rest_timer is not None:
            self._rest_timer.cancel()
            self._rest_timer = None

    def _start_headers_timer(self) -> None:
        self._headers_timer = self.loop.call_later(self.headers_s, self.transport.abort)

    def _stop_headers_timer(self) -> None:
        if self._headers_timer is not None:
            self._headers_timer.cancel()
            self._headers_timer = None


class PingedWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket protocol; a peer whose messages the server has not read yet is not closed for a late pong,
    and one that sends too large headers gets the answer of the library, for which it would wait."""

    _received_s = 0.0

    @override
    def data_received(self, data: bytes) -> None:
        """Note the time: what arrives proves that the peer is alive, though its pong may be later in it."""
        self._received_s = self.loop.time()
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.handshake_complete = self.close_sent = True
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    @override
    def keepalive_timeout(self) -> None:
        """Wait longer while messages precede the pong; otherwise close."""
        pong_s = self.ping_timeout or 0.0
        if self.loop.time() - self._received_s < (PAUSE_S_MAX if self.read_paused else pong_s):
            self.pong_timer = self.loop.call_later(pong_s, self.keepalive_timeout)
            return
        super().keepalive_timeout()
        self.disconnected = True
        self.writable.set()
        self.queue.put_nowait({"type": "websocket.disconnect", "code": 1006})

    @override
    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """Drop a connection whose peer does not read the end: `close` waits for it without limit."""
        super().on_task_complete(task)
        self.loop.call_later(2 * self.close_timeout, self.transport.abort)
