"""A webhook receiver: a real HTTP server on loopback with configurable failures."""

import asyncio
import hmac
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

PATIENCE_S: Final = 60.0
HANG: Final = 0
"""Instead of a status: no answer until the client gives up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedRequest:
    """A request to the receiver, and the status of its answer."""

    headers: dict[str, str]
    body: bytes
    status: int

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.body)
        return document

    def is_signed(self, key: str) -> bool:
        """As a third party would check it by the header's documentation."""
        at, signed = self.headers["aliquot-signature"].split(",")
        wanted = hmac.new(key.encode(), at.removeprefix("t=").encode() + b"." + self.body, sha256).hexdigest()
        return hmac.compare_digest(signed, f"v1={wanted}")


@dataclass(slots=True)
class HttpReceiver:
    """Its next answers are `answers`; then 200."""

    port: int = 0
    answers: deque[int] = field(default_factory=deque)
    requests: list[ReceivedRequest] = field(default_factory=list)
    _request_arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def wait_for_requests(self, count: int) -> list[ReceivedRequest]:
        """Wait for a number of requests."""
        async with asyncio.timeout(PATIENCE_S), self._request_arrived:
            await self._request_arrived.wait_for(lambda: len(self.requests) >= count)
        return self.requests

    async def wait_for_notices(self, *kinds: str) -> list[ReceivedRequest]:
        """Wait until it has accepted a notice of each kind; returns all accepted requests."""
        async with asyncio.timeout(PATIENCE_S), self._request_arrived:
            await self._request_arrived.wait_for(lambda: set(kinds) <= {notice["kind"] for notice in self.notices()})
        return self.accepted()

    def accepted(self) -> list[ReceivedRequest]:
        """Requests answered with 200."""
        return [one for one in self.requests if one.status == 200]

    def notices(self) -> list[dict[str, Any]]:
        """All accepted notices."""
        return [notice for one in self.accepted() for notice in one.document["notices"]]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            headers = {
                name.lower(): value for name, _, value in (line.partition(": ") for line in head.splitlines()[1:])
            }
            body = await reader.readexactly(int(headers["content-length"]))
            status = self.answers.popleft() if self.answers else 200
            async with self._request_arrived:
                self.requests.append(ReceivedRequest(headers=headers, body=body, status=status))
                self._request_arrived.notify_all()
            if status == HANG:
                await reader.read()
            else:
                at = f"Location: {self.url}/elsewhere\r\n" if 300 <= status < 400 else ""
                writer.write(f"HTTP/1.1 {status} X\r\n{at}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())
                await writer.drain()
        writer.close()


@asynccontextmanager
async def http_receiver(*answers: int) -> AsyncIterator[HttpReceiver]:
    """Listens on a free port."""
    receiver = HttpReceiver(answers=deque(answers))
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
