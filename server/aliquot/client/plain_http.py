"""HTTP of the blocking client: one request at a time on a kept connection, without an event loop.

It exists because importing an HTTP library takes longer than most commands of the shell run. Servers behind a proxy of
the environment are reached through httpx.
"""

import os
import select
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import httptools

from aliquot.client.errors import ServerUnreachable
from aliquot.client.requests import is_loopback, tls_context


class HttpPoster(Protocol):
    """Sends requests to one server; may be used from several threads."""

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a body to a path of the server; returns the status and the body of the answer.

        Raises:
            ServerUnreachable: there is no connection, or it broke before the answer was complete.
        """

    def close(self) -> None:
        """Close the connections."""


IDLE_S_MAX: Final = 5.0
"""A connection that was idle for longer is not used again; the server closes it later than this."""
_READ_BYTES: Final = 64 * 1024
_PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy")


def poster(url: str, *, headers: Mapping[str, str], timeout_s: float, ca_file: Path | None) -> HttpPoster:
    """How requests reach a server: directly, or through a proxy that the environment names.

    Args:
        url: the address of the server, without a slash at its end.
        timeout_s: for the connection, and for each part of an answer.
        ca_file: the authority of the server's certificate, in PEM; by default those that this machine trusts.
    Raises:
        NoPlace: `ca_file` has no certificate.
    """
    host = urlsplit(url).hostname or ""
    is_proxied = any(os.environ.get(name) or os.environ.get(name.upper()) for name in _PROXIES)
    if host.isascii() and (is_loopback(url) or not is_proxied):
        return _Server(url, headers=headers, timeout_s=timeout_s, ca_file=ca_file)
    return _ThroughProxy(url, headers=headers, timeout_s=timeout_s, ca_file=ca_file)


class _Server:
    """Kept connections to one server; a `HttpPoster`."""

    def __init__(self, url: str, *, headers: Mapping[str, str], timeout_s: float, ca_file: Path | None) -> None:
        parts = urlsplit(url)
        self._url = url
        self._prefix = parts.path.rstrip("/")
        self._address = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        lines = {"Host": parts.netloc.rpartition("@")[2], "User-Agent": "aliquot", "Accept": "*/*", **headers}
        self._head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self._timeout_s = timeout_s
        self._tls = tls_context(ca_file) if parts.scheme == "https" else None
        self._idle: list[_Connection] = []

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """See `HttpPoster`."""
        head = f"POST {self._prefix}{path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        connection = None
        try:
            connection = self._taken()
            answer = connection.exchange(head.encode("latin-1") + body)
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, OSError | httptools.HttpParserError):
                raise ServerUnreachable(f"{self._url}: {str(error) or type(error).__name__}") from error
            raise
        if answer.is_kept:
            self._idle.append(connection)
        else:
            connection.close()
        return answer.status, b"".join(answer.parts)

    def close(self) -> None:
        """See `HttpPoster`."""
        while self._idle:
            self._idle.pop().close()

    def _taken(self) -> "_Connection":
        """An idle connection that the server has not closed, or a new one."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if connection.is_usable():
                return connection
            connection.close()
        link = socket.create_connection(self._address, timeout=self._timeout_s)
        try:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            secured = self._tls.wrap_socket(link, server_hostname=self._address[0]) if self._tls else link
        except BaseException:
            link.close()
            raise
        return _Connection(secured)


class _Connection:
    """One connection."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._used_s = time.monotonic()

    def exchange(self, request: bytes) -> "_Answer":
        """Send a request and read its answer.

        Raises:
            OSError, HttpParserError: the connection broke, or the answer is not HTTP.
        """
        self._link.sendall(request)
        answer = _Answer()
        parser = httptools.HttpResponseParser(answer)
        answer.parser = parser
        while not answer.is_complete:
            data = self._link.recv(_READ_BYTES)
            if not data:
                answer.end()
                break
            parser.feed_data(data)
        self._used_s = time.monotonic()
        return answer

    def is_usable(self) -> bool:
        """Whether it was idle for a short time only, and the server has neither closed it nor sent anything."""
        if time.monotonic() - self._used_s > IDLE_S_MAX:
            return False
        waiting = select.poll()
        waiting.register(self._link, select.POLLIN)
        return not waiting.poll(0)

    def close(self) -> None:
        """Close it."""
        self._link.close()


class _Answer:
    """An answer while it is read: callbacks of the parser."""

    def __init__(self) -> None:
        self.parser: Any = None
        self.status = 0
        self.parts: list[bytes] = []
        self.is_complete = False
        self.is_kept = False
        self._has_length = False

    def on_message_begin(self) -> None:
        """Forget an interim answer (1xx)."""
        self.parts, self.status, self._has_length = [], 0, False

    def on_header(self, name: bytes, value: bytes) -> None:  # noqa: ARG002 # the callback of the parser
        """Notice whether the end of the body is known."""
        self._has_length |= name.lower() in {b"content-length", b"transfer-encoding"}

    def on_headers_complete(self) -> None:
        """Take the status."""
        self.status = self.parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        """Keep a part of the body."""
        self.parts.append(data)

    def on_message_complete(self) -> None:
        """Notice the end."""
        if self.status >= 200:
            self.is_complete, self.is_kept = True, self.parser.should_keep_alive()

    def end(self) -> None:
        """The server closed the connection, which is the end of a body without a length.

        Raises:
            ConnectionError: the answer is not complete.
        """
        if not self.status:
            raise ConnectionError("the server closed the connection without sending a response")
        if self._has_length:
            raise ConnectionError("the server closed the connection before its answer was complete")


class _ThroughProxy:
    """A server behind a proxy that the environment names, or with a name that is not ASCII; a `HttpPoster`."""

    def __init__(self, url: str, *, headers: Mapping[str, str], timeout_s: float, ca_file: Path | None) -> None:
        import httpx

        self._url = url
        self._failure = httpx.TransportError
        tls = tls_context(ca_file) if url.startswith("https:") else False
        self._http = httpx.Client(base_url=url, timeout=timeout_s, verify=tls, headers=headers)

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """See `HttpPoster`."""
        try:
            answer = self._http.post(path, content=body)
        except self._failure as error:
            raise ServerUnreachable(f"{self._url}: {str(error) or type(error).__name__}") from error
        return answer.status_code, answer.content

    def close(self) -> None:
        """See `HttpPoster`."""
        self._http.close()
