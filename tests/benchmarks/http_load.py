"""A lean HTTP client, which leaves the machine's two cores to the server."""

import asyncio
import json
from types import TracebackType
from typing import Any, Self


class Connection:
    """One kept-alive connection that posts GraphQL requests, one at a time."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._head = (
            f"POST /graphql HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        )
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def post(self, body: bytes) -> bytes:
        """Send one request and return the answer's body.

        Raises:
            OSError, asyncio.IncompleteReadError: the connection broke.
        """
        self._writer.write(f"{self._head}{len(body)}\r\n\r\n".encode() + body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        answer = await self._reader.readexactly(int(length.partition(b":")[2]))
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{head.splitlines()[0]!r}: {answer[:500]!r}")
        return answer

    async def ask(self, query: str, variables: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run a query and return its `data`."""
        answer = json.loads(await self.post(request(query, variables)))
        if answer.get("errors"):
            raise RuntimeError(str(answer["errors"]))
        data: dict[str, Any] = answer["data"]
        return data

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**26)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()


def request(query: str, variables: dict[str, Any] | None = None) -> bytes:
    """The body of a GraphQL request."""
    return json.dumps({"query": query, "variables": variables or {}}).encode()
