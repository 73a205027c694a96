"""HTTP listener: the uvicorn server, and a TLS certificate that is reloaded on renewal."""

import asyncio
import logging
import os
import signal
import socket
import ssl
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import uvicorn
from typing_extensions import override

from aliquot.api.protocols import HeaderTimeoutHttp, PingedWebSocket
from aliquot.app.composition import Server
from aliquot.errors import ConfigurationError
from aliquot.settings import Settings

KEEP_ALIVE_S: Final = 75
"""How long a connection without a request stays open. Clients close theirs earlier (httpx after 5 s, browsers after a
minute or less): were the two times equal, a request could meet the server's close and be lost."""
RELOAD_S: Final = 2.0
"""Interval at which the files are checked for changes."""
tls_log: Final = logging.getLogger("aliquot.tls")


class Certificate:
    """A certificate with its key. Open connections keep the certificate that they were made with."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Read the files.

        Raises:
            ConfigurationError: they cannot be used; the message names the reason.
        """
        self._files = (certificate, key)
        self._seen = self._stamps()
        self.context = self._loaded()

    def renew(self) -> bool:
        """Load files that have changed, and return whether they were loaded.

        A pair that does not match, as in the middle of a replacement, is skipped until it changes again.
        """
        stamps = self._stamps()
        if stamps == self._seen:
            return False
        self._seen = stamps
        try:
            self._loaded()
            self.context.load_cert_chain(*self._files)
        except (ConfigurationError, OSError) as error:
            tls_log.error("the changed certificate cannot be used, the old one stays in use: %s", error)
            return False
        tls_log.info("loaded the renewed certificate %s", self._files[0])
        return True

    async def keep_fresh(self) -> None:
        """Reload a renewed certificate, for ever."""
        while True:
            await asyncio.sleep(RELOAD_S)
            self.renew()

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(["http/1.1"])
        certificate, key = self._files
        for name, path in (("tls-certificate", certificate), ("tls-key", key)):
            try:
                path.read_bytes()
            except OSError as error:
                raise ConfigurationError(f"{name}: {path} cannot be read ({error.strerror})") from None
        try:
            context.load_cert_chain(certificate, key, password=_no_passphrase)
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            words = f"{certificate} and {key} are not a certificate and its key, without a passphrase"
            raise ConfigurationError(f"tls-certificate: {words} ({reason})") from None
        return context

    def _stamps(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(map(_stamp, self._files))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _no_passphrase() -> str:
    """Keeps OpenSSL from asking for a passphrase on the terminal."""
    return ""


SHUTDOWN_S: int = 3
"""Time for open requests to complete at shutdown."""


def certificate_of(settings: Settings) -> Certificate | None:
    """The certificate to serve with; None = plain HTTP.

    Raises:
        ConfigurationError: the files cannot be used.
    """
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return Certificate(settings.tls_certificate, settings.tls_key)


def bound_socket(settings: Settings) -> socket.socket:
    """Bind the port before anything else is started.

    Raises:
        ConfigurationError: the port cannot be bound.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family)
    except OSError as error:
        raise ConfigurationError(
            f"port: cannot listen on {settings.host} port {settings.port} ({os.strerror(error.errno or 0)}); "
            "stop the program that uses it, or choose another with --port"
        ) from None


def app_sockets(settings: Settings) -> list[socket.socket]:
    """Bind the ports of web services, if there are any.

    Raises:
        ConfigurationError: a port cannot be bound.
    """
    if settings.apps_domain is not None:
        return []
    found: list[socket.socket] = []
    for port in settings.app_ports:
        try:
            found.append(bound_socket(settings.model_copy(update={"port": port})))
        except ConfigurationError as error:
            for taken in found:
                taken.close()
            raise ConfigurationError(f"apps-ports: {error}") from None
    return found


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
            behind_proxy: trust the `X-Forwarded-*` headers.
        """
        super().__init__(
            uvicorn.Config(
                server.app,
                lifespan="off",
                log_config=None,
                access_log=False,
                http=HeaderTimeoutHttp,
                ws=PingedWebSocket,
                ws_per_message_deflate=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=SHUTDOWN_S,
                server_header=False,
                proxy_headers=behind_proxy,
                forwarded_allow_ips="*",
                ssl_context_factory=None if certificate is None else lambda *_: certificate.context,
            )
        )
        self._open_connections = server.open_connections
        self._certificate = certificate
        self._on_started = on_started

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, and report the port."""
        await super().startup(sockets=sockets)
        if self.started:
            self._on_started(self.servers[0].sockets[0].getsockname()[1])

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop to listen; requests have `SHUTDOWN_S` seconds to complete, and streams end before."""
        self._open_connections.stop()
        await super().shutdown(sockets=sockets)

    @override
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop also when the terminal is closed, unless the server was started with `nohup`."""
        with super().capture_signals():
            before = signal.getsignal(signal.SIGHUP)
            if before is signal.SIG_IGN:
                yield
                return
            signal.signal(signal.SIGHUP, self.handle_exit)
            try:
                yield
            finally:
                signal.signal(signal.SIGHUP, before)

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop on a signal. Unlike uvicorn, do not raise it again, which would end the process immediately."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def serve_until(self, failed: asyncio.Event, *, taken: Sequence[socket.socket]) -> None:
        """Serve on sockets, the server's own first, until a signal arrives or the server behind it fails."""
        tasks = [asyncio.create_task(self._stop_when(failed))]
        if self._certificate is not None:
            tasks.append(asyncio.create_task(self._certificate.keep_fresh()))
        try:
            await self.serve(sockets=list(taken))
        finally:
            for task in tasks:
                task.cancel()

    async def _stop_when(self, failed: asyncio.Event) -> None:
        await failed.wait()
        self.should_exit = True
