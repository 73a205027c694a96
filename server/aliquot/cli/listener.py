"""The HTTP listener: says when it listens, and stops when the server behind it has failed."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from typing_extensions import override

from aliquot.app import Server
from aliquot.errors import ConfigurationError
from aliquot.settings import Settings

SHUTDOWN_S: int = 3
"""How long open requests may take to end."""


def bound_socket(settings: Settings) -> socket.socket:
    """Take the port, before anything is started that would have to be stopped again.

    Raises:
        ConfigurationError: the port cannot be had.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family)
    except OSError as error:
        raise ConfigurationError(
            f"port: {settings.port} on {settings.host} cannot be had ({os.strerror(error.errno or 0)}); "
            "stop what uses it, or give another with --port"
        ) from None


class Listener(uvicorn.Server):
    """A uvicorn server that calls `on_started` with its port."""

    def __init__(self, server: Server, *, on_started: Callable[[int], None]) -> None:
        super().__init__(
            uvicorn.Config(
                server.app,
                lifespan="off",
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

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Obey a signal. Unlike uvicorn's own it is not raised again, which would end the process on the spot."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def serve_until(self, failed: asyncio.Event, *, taken: socket.socket) -> None:
        """Serve on a socket until a signal comes or the server behind fails."""
        failing = asyncio.create_task(self._stop_when(failed))
        try:
            await self.serve(sockets=[taken])
        finally:
            failing.cancel()

    async def _stop_when(self, failed: asyncio.Event) -> None:
        await failed.wait()
        self.should_exit = True
