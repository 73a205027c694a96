"""Agent endpoint: one WebSocket per agent, opened by the agent and authenticated before it is accepted.

Registering an agent occupies the event loop for some milliseconds. When many agents connect within seconds,
`REGISTERED_AT_ONCE` of them register at a time, as many wait as register within `WAIT_S_MAX`, and the others get 503
with `Retry-After`.
"""

import asyncio
import math
import time
from collections.abc import Callable
from typing import Final, Protocol

from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from aliquot_schema.cluster.agent_protocol import AGENT_HEADER

CLOSE_S_MAX: Final = 1.0


class AgentWire(Protocol):
    """A connection as `AgentGateway` uses it."""

    async def send(self, data: bytes) -> None:
        """Send a frame; nothing happens when the connection has ended."""

    async def receive(self) -> bytes | None:
        """The next frame; None when the connection has ended."""

    async def close(self, *, code: int, reason: str) -> None:
        """End the connection."""


class AgentGateway(Protocol):
    """Authenticates agents and serves their connections."""

    def refusal(self, agent_id: str, key: str) -> str | None:
        """Why this agent and key are rejected; None when they are accepted."""

    async def meet(self, wire: AgentWire, *, agent_id: str, key: str, on_joined: Callable[[], None]) -> None:
        """Serve one connection until its end; `on_joined` is called when the agent is registered."""


class StarletteWire:
    """An `AgentWire` over Starlette."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def send(self, data: bytes) -> None:
        """Send a frame; nothing happens when the connection has ended."""
        if self._socket.application_state is WebSocketState.CONNECTED:
            try:
                await self._socket.send_bytes(data)
            except WebSocketDisconnect:
                return

    async def receive(self) -> bytes | None:
        """The next frame; None when the connection has ended."""
        if self._socket.client_state is not WebSocketState.CONNECTED:
            return None
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            return None
        data: bytes | None = message.get("bytes")
        return b"" if data is None else data  # a text frame is not valid and is rejected by its length

    async def close(self, *, code: int, reason: str) -> None:
        """End the connection; a client that does not read is dropped after a second."""
        if self._socket.application_state is WebSocketState.CONNECTED:
            try:
                async with asyncio.timeout(CLOSE_S_MAX):
                    await self._socket.close(code, reason)
            except (TimeoutError, WebSocketDisconnect):
                return


REGISTERED_AT_ONCE: Final = 16
WAIT_S_MAX: Final = 4.0
"""As many connections wait for their turn as register within this time. Each has sent its request already, and gives up
after ten seconds."""
RETURNS_PER_S: Final = 200
"""Agents that are asked to retry within the same second, or fewer once it is known how many register in a second."""
GAPS: Final = 64
"""Registrations over which the time between two of them is averaged."""
GAP_S_MAX: Final = 0.1
HASTE: Final = 0.75
"""Part of that time after which the next agent returns: rather a few too early than a server that waits for agents."""
RETURN_S_MAX: Final = 60.0
REGISTRATION_S_MAX: Final = 5.0
"""Longest time that a connection counts as registering, so that a stalled agent does not block others."""


class Admissions:
    """Limits how many agents register at a time."""

    def __init__(
        self,
        *,
        at_once: int = REGISTERED_AT_ONCE,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            now: seconds of a monotonic clock.
        """
        self._places = asyncio.Semaphore(at_once)
        self._waiting = 0
        self._now = now
        self._gap_s = 1 / RETURNS_PER_S
        """Mean time between two registrations while agents wait."""
        self._registered_s = -math.inf
        """Time of the last registration."""
        self._told_until = 0.0
        """When the last rejected agent retries."""

    async def take(self) -> Callable[[], None] | None:
        """Wait for a place. Returns the function that gives it back, which may be called more than once; None when too
        many agents wait."""
        if self._waiting * self._gap_s >= WAIT_S_MAX:
            return None
        self._waiting += 1
        try:
            await self._places.acquire()
        finally:
            self._waiting -= 1
        is_held = True

        def give_back() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                limit.cancel()
                self._note_registration()
                self._places.release()

        limit = asyncio.get_running_loop().call_later(REGISTRATION_S_MAX, give_back)
        return give_back

    def return_s(self) -> int:
        """Seconds after which a rejected agent retries: after those that wait, and a little faster than agents
        register. Agents add a random part of a second."""
        now = self._now()
        step_s = max(HASTE * self._gap_s, 1 / RETURNS_PER_S)
        first = now + self._waiting * step_s
        self._told_until = min(max(first, self._told_until) + step_s, now + RETURN_S_MAX)
        return math.ceil(self._told_until - now)

    def _note_registration(self) -> None:
        now = self._now()
        gap_s = min(now - self._registered_s, GAP_S_MAX) if self._waiting else 0.0
        self._gap_s += (gap_s - self._gap_s) / GAPS
        self._registered_s = now


class AgentSocket:
    """The route as an ASGI application."""

    def __init__(self, door: AgentGateway) -> None:
        self._door = door
        self._admissions = Admissions()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept an agent, or reject it: with 401 and the reason, or with 503 and the seconds to wait."""
        socket = WebSocket(scope, receive, send)
        await socket.receive()
        agent_id = socket.headers.get(AGENT_HEADER, "")
        scheme, _, key = socket.headers.get("authorization", "").partition(" ")
        words = "send the agent's key in the header `Authorization: Bearer KEY`" if scheme.lower() != "bearer" else None
        words = words or self._door.refusal(agent_id, key.strip())
        if words is not None:
            await socket.send_denial_response(PlainTextResponse(words, 401))
            return
        give_back = await self._admissions.take()
        if give_back is None:
            again = self._admissions.return_s()
            words = f"many agents connect at once; come back in {again} s"
            await socket.send_denial_response(PlainTextResponse(words, 503, {"retry-after": str(again)}))
            return
        try:
            await self._serve(socket, agent_id=agent_id, key=key.strip(), on_joined=give_back)
        finally:
            give_back()

    async def _serve(self, socket: WebSocket, *, agent_id: str, key: str, on_joined: Callable[[], None]) -> None:
        await socket.accept()
        wire = StarletteWire(socket)
        try:
            await self._door.meet(wire, agent_id=agent_id, key=key, on_joined=on_joined)
        finally:
            await wire.close(code=1000, reason="")
