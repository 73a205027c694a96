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
from aliquot.cli.certificate import Certificate
from aliquot.cli.patient_http import PatientHttp
from aliquot.errors import ConfigurationError
from aliquot.settings import Settings

SHUTDOWN_S: int = 3
"""How long open requests may take to end."""


def certificate_of(settings: Settings) -> Certificate | None:
    """What to show to those who connect; None = nothing is encrypted here.

    Raises:
        ConfigurationError: the files cannot be used.
    """
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return Certificate(settings.tls_certificate, settings.tls_key)


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

    def __init__(
        self,
        server: Server,
        *,
        certificate: Certificate | None,
        behind_proxy: bool,
        on_started: Callable[[int], None],
    ) -> None:
        """
        Args:
            certificate: None = plain HTTP.
            behind_proxy: believe what `X-Forwarded-*` says of clients.
        """
        super().__init__(
            uvicorn.Config(
                server.app,
                lifespan="off",
                log_config=None,
                access_log=False,
                http=PatientHttp,
                ws="websockets-sansio",
                ws_per_message_deflate=False,
                timeout_graceful_shutdown=SHUTDOWN_S,
                server_header=False,
                proxy_headers=behind_proxy,
                forwarded_allow_ips="*",
                ssl_context_factory=None if certificate is None else lambda *_: certificate.context,
            )
        )
        self._certificate = certificate
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
        beside = [asyncio.create_task(self._stop_when(failed))]
        if self._certificate is not None:
            beside.append(asyncio.create_task(self._certificate.keep_fresh()))
        try:
            await self.serve(sockets=[taken])
        finally:
            for task in beside:
                task.cancel()

    async def _stop_when(self, failed: asyncio.Event) -> None:
        await failed.wait()
        self.should_exit = True
