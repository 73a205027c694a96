"""Agent endpoint: one WebSocket per agent, opened by the agent and authenticated before it is accepted."""

import asyncio
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

    async def meet(self, wire: AgentWire, *, agent_id: str, key: str) -> None:
        """Serve one connection until its end."""


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


class AgentSocket:
    """The route as an ASGI application."""

    def __init__(self, door: AgentGateway) -> None:
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept an agent, or reject it with 401 and the reason."""
        socket = WebSocket(scope, receive, send)
        await socket.receive()
        agent_id = socket.headers.get(AGENT_HEADER, "")
        scheme, _, key = socket.headers.get("authorization", "").partition(" ")
        words = "send the agent's key in the header `Authorization: Bearer KEY`" if scheme.lower() != "bearer" else None
        words = words or self._door.refusal(agent_id, key.strip())
        if words is not None:
            await socket.send_denial_response(PlainTextResponse(words, 401))
            return
        await socket.accept()
        wire = StarletteWire(socket)
        try:
            await self._door.meet(wire, agent_id=agent_id, key=key.strip())
        finally:
            await wire.close(code=1000, reason="")
