"""Uploads of working directories, and the listing of the one that a session ran in.

POST /workspaces                        a `Workspace` as JSON; answers which blocks are missing
POST /workspaces/blocks                 missing blocks, each after 8 bytes with its length, big endian
GET /sessions/{session_id}/workspace    the listing, with the commit and the difference from it
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aliquot.api.connections import OpenCounts
from aliquot.api.context import Contexts
from aliquot.api.encoding import request_id_of
from aliquot.api.limits import Limits
from aliquot.api.rest.framework import error_response, problem_response
from aliquot.api.session_streams import DataRateLimit
from aliquot.service.accounts.workspaces import NO_UPLOADS, Workspaces
from aliquot_schema.cluster.workspaces import BLOCK_BYTES, LISTING_BYTES_MAX, Workspace
from aliquot_schema.errors import AliquotError, InvalidRequest, NotFound
from aliquot_schema.requests import Caller

UPLOAD: Final = "/workspaces"
BLOCKS: Final = "/workspaces/blocks"
OF_SESSION: Final = "/sessions/{session_id}/workspace"
BATCH_BYTES_MAX: Final = 2 * BLOCK_BYTES + 1024 * 1024
"""Of one request with blocks, with their lengths."""
_HEAD_BYTES: Final = 8
_JSON: Final = "application/json"
_Handler = Callable[[Request, Caller], Awaitable[Response]]


class WorkspaceEndpoint:
    """Serves the three routes."""

    def __init__(self, workspaces: Workspaces | None, *, contexts: Contexts, limits: Limits) -> None:
        self._workspaces = workspaces
        self._contexts = contexts
        self._limits = limits
        self.open = OpenCounts(per_user=limits.uploads_per_user)
        """Uploads in progress."""

    def routes(self) -> list[Route]:
        """The routes."""
        return [
            Route(UPLOAD, self._guarded(self._upload), methods=["POST"]),
            Route(BLOCKS, self._guarded(self._blocks), methods=["POST"]),
            Route(OF_SESSION, self._guarded(self._of_session), methods=["GET"]),
        ]

    def _guarded(self, handler: _Handler) -> Callable[[Request], Awaitable[Response]]:
        """The handler for an authenticated caller, with errors as problems."""

        async def answer(request: Request) -> Response:
            request_id = request_id_of(request)
            try:
                caller = self._contexts.caller_of(request)
                if not self.open.may_open(caller.user):
                    words = f"{self._limits.uploads_per_user} uploads of {caller.user} are in progress; wait for one"
                    again = {"retry-after": "1"}
                    return problem_response(429, "rate_limited", words, request_id=request_id, headers=again)
                with self.open.counted(caller.user):
                    return await handler(request, caller)
            except AliquotError as error:
                return error_response(error, request_id=request_id)

        return answer

    async def _upload(self, request: Request, caller: Caller) -> Response:
        body = await self._body(request, LISTING_BYTES_MAX)
        try:
            workspace = msgspec.json.decode(body, type=Workspace)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"workspace: {error}", field="workspace") from None
        return Response(msgspec.json.encode(await self._stored().upload(caller, workspace)), media_type=_JSON)

    async def _blocks(self, request: Request, caller: Caller) -> Response:
        stored = self._stored()
        for block in _split(await self._body(request, BATCH_BYTES_MAX)):
            await stored.keep(caller, block)
        return Response(status_code=204)

    async def _of_session(self, request: Request, caller: Caller) -> Response:
        id = str(request.path_params["session_id"])
        session = await self._contexts.services.queries.session(caller, id)
        if session is None:
            raise NotFound(f"there is no session {id[:80]}", kind="session", id=id[:80])
        found = None if self._workspaces is None else await self._workspaces.of_session(caller, session)
        return Response(msgspec.json.encode(found), media_type=_JSON, headers={"cache-control": "no-store"})

    def _stored(self) -> Workspaces:
        if self._workspaces is None:
            raise InvalidRequest(NO_UPLOADS, field="workspace")
        return self._workspaces

    async def _body(self, request: Request, most: int) -> bytes:
        body, pace = bytearray(), DataRateLimit(self._limits.stream_bytes_per_s)
        async for piece in request.stream():
            await pace.take(len(piece))
            body += piece
            if len(body) > most:
                raise InvalidRequest(f"the body has more than {most} bytes; send less at once", field="body")
        return bytes(body)


def _split(body: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(body):
        size = int.from_bytes(body[at : at + _HEAD_BYTES], "big")
        at += _HEAD_BYTES
        if not 0 < size <= len(body) - at:
            raise InvalidRequest("body: a block is shorter than its length says", field="body")
        yield body[at : at + size]
        at += size
