"""Agent wire: the agent's end of a connection over Ray; the gateway brings and fetches frames by actor calls."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from aliquot.execution.remote.codec import FRAME_BYTES_MAX

WAITING_BYTES_MAX: Final = 4 * FRAME_BYTES_MAX
FETCH_S_MAX: Final = 10.0
"""Longest wait of a fetch, so that calls of a dead gateway do not accumulate."""


class AgentWire:
    """A `Wire`, see `remote.codec`."""

    def __init__(self) -> None:
        self._incoming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._outgoing: deque[bytes] = deque()
        self._waiting = 0
        self._changed = asyncio.Condition()
        self._is_over = False

    async def send(self, data: bytes) -> None:
        """Queue a frame for the gateway; waits while the queue is full."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._is_over or self._waiting < WAITING_BYTES_MAX)
            if not self._is_over:
                self._outgoing.append(data)
                self._waiting += len(data)
                self._changed.notify_all()

    async def receive(self) -> bytes | None:
        """The next frame from the gateway; None at the end of the connection."""
        frame = None if self._is_over and self._incoming.empty() else await self._incoming.get()
        if frame is None:
            self._incoming.put_nowait(None)
        return frame

    async def close(self, *, code: int, reason: str) -> None:  # noqa: ARG002 # the signature is the protocol's
        """End the connection; queued frames can still be fetched."""
        self._incoming.put_nowait(None)
        async with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def bring(self, frames: Sequence[bytes]) -> bool:
        """Receive frames from the gateway; False if the connection has ended."""
        for frame in frames:
            self._incoming.put_nowait(frame)
        return not self._is_over

    async def fetch(self) -> list[bytes] | None:
        """Queued frames for the gateway, in order, limited in size; empty after `FETCH_S_MAX` without frames.

        Returns:
            None if the connection has ended and everything was fetched.
        """
        try:
            async with asyncio.timeout(FETCH_S_MAX), self._changed:
                await self._changed.wait_for(lambda: self._is_over or self._outgoing)
        except TimeoutError:
            return []
        fetched: list[bytes] = []
        room = FRAME_BYTES_MAX
        while self._outgoing and room > 0:
            fetched.append(self._outgoing.popleft())
            room -= len(fetched[-1])
        self._waiting -= FRAME_BYTES_MAX - room
        async with self._changed:
            self._changed.notify_all()
        return fetched or None
