"""HTTP connections that say nothing, or only a little now and then, and are not kept for it."""

import asyncio
from typing import Any, Final

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS_S: Final = 20.0
"""From the first byte of a request, or from the connection, to the end of the headers."""


class PatientHttp(HttpToolsProtocol):
    """uvicorn's, which looks at the clock between requests alone."""

    headers_s = HEADERS_S
    _waiting: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: Any) -> None:
        """Wait for a request."""
        super().connection_made(transport)
        self._wait()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_waiting()
        super().connection_lost(exc)

    @override
    def on_message_begin(self) -> None:
        """Wait for the rest of the headers."""
        self._stop_waiting()
        self._wait()
        super().on_message_begin()

    @override
    def on_headers_complete(self) -> None:
        """It has begun."""
        self._stop_waiting()
        super().on_headers_complete()

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self.headers_s, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
