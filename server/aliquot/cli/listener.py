"""The HTTP listener: says when it listens, and stops when the server behind it has failed."""

import asyncio
import socket
from collections.abc import Callable

import uvicorn
from typing_extensions import override

from aliquot.app import Server
from aliquot.settings import Settings

SHUTDOWN_S: int = 3
"""How long open requests may take to end."""


class Listener(uvicorn.Server):
    """A uvicorn server that calls `on_started` with its port."""

    def __init__(self, server: Server, settings: Settings, *, on_started: Callable[[int], None]) -> None:
        super().__init__(
            uvicorn.Config(
                server.app,
                host=settings.host,
                port=settings.port,
                log_config=None,
                access_log=False,
                ws="websockets-sansio",
                ws_per_message_deflate=False,
                timeout_graceful_shutdown=SHUTDOWN_S,
                server_header=False,
            )
        )
        self._on_started = on_started

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets=sockets)
        if self.started:
            self._on_started(self.servers[0].sockets[0].getsockname()[1])

    async def serve_until(self, failed: asyncio.Event) -> None:
        """Serve until a signal comes or the server behind fails."""
        failing = asyncio.create_task(self._stop_when(failed))
        try:
            await self.serve()
        finally:
            failing.cancel()

    async def _stop_when(self, failed: asyncio.Event) -> None:
        await failed.wait()
        self.should_exit = True
