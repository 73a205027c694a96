"""Outputs of kernels for the other servers: the one that leads has the agents, and passes on what they tell."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from aliquot.api.authentication import TokenAuth
from aliquot.api.output_frames import frame
from aliquot.service.watching import Outputs
from aliquot_schema.errors import AliquotError, NotFound, Unauthenticated
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.launching import LogChunk

OUTPUTS_PATH: Final = "/servers/outputs"
"""`?agent_id=&kernel_id=&offset=`; answers the output from there on in frames, and ends where the output does."""


class OutputPages:
    """Answers with the server's own agents alone, so that nobody is sent in a circle."""

    def __init__(self, outputs: Outputs, *, auth: TokenAuth) -> None:
        self._outputs = outputs
        self._auth = auth

    async def stream(self, request: Request) -> Response:
        """401 without the token, 404 where the agent has no such output, 503 where this server does not lead."""
        asked = request.query_params
        try:
            bearer = self._auth.of_headers(request.headers.get("authorization"), {})
            if bearer.key_id is not None:
                raise Unauthenticated("servers show each other their own token; no key of a user opens this")
            agent_id, kernel_id = AgentId(asked.get("agent_id", "")), KernelId(asked.get("kernel_id", ""))
            chunks = self._outputs.follow_log(agent_id, kernel_id, offset=int(asked.get("offset", "0")))
            first = await anext(chunks)
        except ValueError:
            return PlainTextResponse("offset: give a number of bytes", 400)
        except AliquotError as error:
            return PlainTextResponse(error.message, _status(error))
        return StreamingResponse(_bytes(first, chunks), media_type="application/octet-stream")


def _status(error: AliquotError) -> int:
    match error:
        case Unauthenticated():
            return 401
        case NotFound():
            return 404
        case _:
            return 503


async def _bytes(first: LogChunk, rest: AsyncIterator[LogChunk]) -> AsyncIterator[bytes]:
    yield frame(first)
    if first.at_end:
        return
    async with aclosing(rest):  # type: ignore[type-var] # executors' iterators are generators
        async for chunk in rest:
            yield frame(chunk)
