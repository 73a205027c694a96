"""Job output between servers: the leader has the agents' connections and streams their output to followers.

The stream is a sequence of frames. Each has an offset, so that gaps and empty pieces are visible.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import partial
from struct import Struct
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from aliquot.api.authentication import TokenAuth
from aliquot.api.connections import OpenConnections, expire
from aliquot.service.subscriptions.watching import Outputs
from aliquot_schema.cluster.launching import LogChunk
from aliquot_schema.errors import AliquotError, NotFound, Unauthenticated
from aliquot_schema.ids import AgentId, KernelId

log: Final = logging.getLogger("aliquot.sessions")

HEAD: Final = Struct(">QI?")
"""Offset, number of bytes that follow, and whether the output ends after them."""

OUTPUTS_PATH: Final = "/servers/outputs"
"""`?agent_id=&kernel_id=&offset=`; answers frames from the offset on and ends with the output."""


def frame(chunk: LogChunk) -> bytes:
    """One piece as a frame."""
    return HEAD.pack(chunk.offset, len(chunk.data), chunk.at_end) + chunk.data


async def unframed(stream: AsyncIterator[bytes]) -> AsyncIterator[LogChunk]:
    """The pieces of a stream, however it was split; each as soon as it is complete."""
    held = bytearray()
    async for data in stream:
        held += data
        while len(held) >= HEAD.size:
            offset, length, at_end = HEAD.unpack_from(held)
            end = HEAD.size + length
            if len(held) < end:
                break
            yield LogChunk(offset=offset, data=bytes(held[HEAD.size : end]), at_end=at_end)
            del held[:end]


class _OutputStream(StreamingResponse):
    """Frames, until the output ends or this server stops: the reader then goes on at another one."""

    def __init__(self, frames: AsyncGenerator[bytes, None], *, open_connections: OpenConnections) -> None:
        super().__init__(frames, media_type="application/octet-stream")
        self._frames = frames
        self._open_connections = open_connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        has_begun = False

        async def send_noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        running = asyncio.timeout(None)
        try:
            async with running, aclosing(self._frames):
                with self._open_connections.until_stop(partial(expire, running)):
                    await super().__call__(scope, receive, send_noted)
        except TimeoutError:
            if not running.expired():
                raise
            if has_begun:
                await send({"type": "http.response.body", "body": b""})
            else:
                await PlainTextResponse("the server stops", 503)(scope, receive, send)


class OutputPages:
    """Serves outputs of this server's own agents only, so that requests cannot loop between servers."""

    def __init__(self, outputs: Outputs, *, auth: TokenAuth, open_connections: OpenConnections) -> None:
        self._outputs = outputs
        self._auth = auth
        self._open_connections = open_connections

    async def stream(self, request: Request) -> Response:
        """401 without the server's token, 404 for an unknown output, 503 where this server does not lead."""
        asked = request.query_params
        try:
            bearer = self._auth.of_headers(request.headers.get("authorization"), {})
            if bearer.key_id is not None:
                raise Unauthenticated("this path is for other servers: send the server's token, not a user's key")
            agent_id, kernel_id = AgentId(asked.get("agent_id", "")), KernelId(asked.get("kernel_id", ""))
            chunks = self._outputs.follow_log(agent_id, kernel_id, offset=int(asked.get("offset", "0")))
            first = await anext(chunks)
        except ValueError:
            return PlainTextResponse("offset: give a whole number of bytes", 400)
        except AliquotError as error:
            return PlainTextResponse(error.message, _status(error))
        return _OutputStream(_bytes(first, chunks), open_connections=self._open_connections)


def _status(error: AliquotError) -> int:
    match error:
        case Unauthenticated():
            return 401
        case NotFound():
            return 404
        case _:
            return 503


async def _bytes(first: LogChunk, rest: AsyncIterator[LogChunk]) -> AsyncGenerator[bytes, None]:
    """Frames, up to the end of the output; fewer when the agent is lost or this server no longer leads."""
    yield frame(first)
    if first.at_end:
        return
    async with aclosing(rest):  # type: ignore[type-var] # executors' iterators are generators
        try:
            async for chunk in rest:
                yield frame(chunk)
        except AliquotError as error:
            log.info("the output for another server ends early: %s", error.message)
