"""A lean WebSocket client for graphql-transport-ws: a thousand must not use the CPU that is measured."""

import asyncio
import base64
import json
import os
import struct
import time
from typing import Any, Final

_MASK: Final = bytes(4)
"""A mask is required; its value does not matter."""


class Socket(asyncio.Protocol):
    """One connection that counts messages with their times."""

    def __init__(self) -> None:
        self.messages: list[float] = []
        """Arrival of each message, by time.perf_counter."""
        self.last = b""
        self._news = asyncio.Event()
        self._buffer = bytearray()
        self._is_open = False
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Read the handshake's answer, then frames."""
        self._buffer += data
        if not self._is_open:
            head, end, rest = bytes(self._buffer).partition(b"\r\n\r\n")
            if not end:
                return
            assert b" 101 " in head, head
            self._is_open, self._buffer = True, bytearray(rest)
            self._news.set()
        while self._frame():
            self._news.set()

    async def open(self, port: int) -> None:
        """Upgrade the connection."""
        key = base64.b64encode(os.urandom(16)).decode()
        self._transport.write(
            f"GET /graphql HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n".encode()
        )
        await self._until(lambda: self._is_open)

    async def subscribe(self, token: str, query: str, variables: dict[str, Any]) -> None:
        """Sign in and subscribe."""
        self._send({"type": "connection_init", "payload": {"token": token}})
        await self.until_messages(1)
        assert b"connection_ack" in self.last
        payload = {"query": query, "variables": variables}
        self._send({"id": "1", "type": "subscribe", "payload": payload})

    async def until_messages(self, count: int) -> None:
        """Wait until this many messages arrived."""
        await self._until(lambda: len(self.messages) >= count)

    def close(self) -> None:
        """Disconnect."""
        self._transport.abort()

    async def _until(self, is_so: Any) -> None:
        while not is_so():
            self._news.clear()
            await self._news.wait()

    def _send(self, message: dict[str, Any]) -> None:
        text = json.dumps(message).encode()
        assert len(text) < 65536
        self._transport.write(struct.pack("!BBH", 0x81, 0x80 | 126, len(text)) + _MASK + text)

    def _frame(self) -> bool:
        if len(self._buffer) < 2:
            return False
        length, start = self._buffer[1], 2
        if length == 126:
            start = 4
        elif length == 127:
            start = 10
        if start > 2:
            length = int.from_bytes(self._buffer[2:start])
        if len(self._buffer) < start + length:
            return False
        if self._buffer[0] == 0x81:
            self.messages.append(time.perf_counter())
            self.last = bytes(self._buffer[start : start + length])
        del self._buffer[: start + length]
        return True


async def connected(port: int) -> Socket:
    """Open a WebSocket."""
    _, socket = await asyncio.get_running_loop().create_connection(Socket, "127.0.0.1", port)
    await socket.open(port)
    return socket
