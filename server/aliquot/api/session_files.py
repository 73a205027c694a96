"""Download of results: one file below RESULT_DIR of a session, whole or by a range.

What a job wrote never runs in the dashboard's origin: the answer is an attachment without a type, in a sandbox.
"""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing
from contextvars import ContextVar
from typing import Final
from urllib.parse import quote

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from aliquot.api.connections import OpenConnections, OpenCounts
from aliquot.api.context import Contexts
from aliquot.api.encoding import request_id_of
from aliquot.api.limits import Limits
from aliquot.api.rest.framework import error_response, problem_response
from aliquot.api.session_streams import DataRateLimit
from aliquot.service.sessions.agent_files import OpenedResult
from aliquot.service.sessions.files import SessionFiles
from aliquot_schema.cluster.results import entity_tag
from aliquot_schema.errors import AliquotError, InvalidRequest, Unavailable
from aliquot_schema.requests import Caller

PATH: Final = "/sessions/{session_id}/files/{path:path}"
MEDIA_TYPE: Final = "application/octet-stream"
POLICY: Final = "default-src 'none'; sandbox; frame-ancestors 'none'"
_is_broken_off: Final = ContextVar("_is_broken_off", default=False)
"""Whether the download of this request has ended early."""
_RANGE: Final = re.compile(r"bytes=(?:(\d{1,18})-(\d{0,18})|-(\d{1,18}))", re.ASCII)


def _without_traceback(record: logging.LogRecord) -> bool:
    """Make one line of uvicorn's error about a download that an expected failure broke off, like a lost agent."""
    error = record.exc_info[1] if record.exc_info else None
    if _is_broken_off.get() and isinstance(error, AliquotError):
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.msg, record.args = "an answer was broken off: %s", (error.message,)
        record.exc_info = record.exc_text = None
    return True


class ByteRange(Struct, frozen=True, kw_only=True):
    """A part of a file, as RFC 9110 writes it."""

    offset: int = 0
    """Negative counts from the end."""
    length: int | None = None

    @classmethod
    def of(cls, header: str | None) -> "ByteRange | None":
        """The single range of a header; None for several, and for what is not a range: such a header is ignored."""
        found = None if header is None else _RANGE.fullmatch(header.replace(" ", ""))
        if found is None:
            return None
        first, last, suffix = found.groups()
        if suffix is not None:
            return cls(offset=-int(suffix)) if int(suffix) else cls(offset=2**61, length=0)
        if last and int(last) < int(first):
            return None
        return cls(offset=int(first), length=int(last) - int(first) + 1 if last else None)


class Download(StreamingResponse):
    """The content of a file.

    Args:
        rest: closed at the end, also when the client left before the first byte and the content was never asked for.
    """

    def __init__(
        self, content: AsyncGenerator[bytes, None], status: int, headers: Mapping[str, str], *, rest: AsyncExitStack
    ) -> None:
        super().__init__(content, status, headers, MEDIA_TYPE)
        self._content = content
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        async with self._rest, aclosing(self._content):
            try:
                await super().__call__(scope, receive, send)
            except AliquotError:
                _is_broken_off.set(True)
                raise


class ResultDownload:
    """Serves files of results."""

    def __init__(
        self, files: SessionFiles, *, contexts: Contexts, open_connections: OpenConnections, limits: Limits
    ) -> None:
        self._files = files
        self._contexts = contexts
        self._open_connections = open_connections
        self._limits = limits
        logging.getLogger("uvicorn.error").addFilter(_without_traceback)
        self.open = OpenCounts(per_user=limits.downloads_per_user)
        """Downloads in progress."""

    async def answer(self, request: Request) -> Response:
        """200 or 206 with the content; 304, 401, 403, 404, 416, 422, 429 or 503."""
        request_id = request_id_of(request)
        rest = AsyncExitStack()
        try:
            caller = self._contexts.caller_of(request)
            if not self.open.may_open(caller.user):
                words = f"{self._limits.downloads_per_user} downloads of {caller.user} are in progress; wait for one"
                return problem_response(429, "rate_limited", words, request_id=request_id, headers={"retry-after": "5"})
            rest.enter_context(self.open.counted(caller.user))
            return await self._opened(request, caller, rest)
        except AliquotError as error:
            await rest.aclose()
            return error_response(error, request_id=request_id)
        except BaseException:
            await rest.aclose()
            raise

    async def _opened(self, request: Request, caller: Caller, rest: AsyncExitStack) -> Response:
        asked = ByteRange.of(request.headers.get("range"))
        found = await self._open(request, caller, asked or ByteRange())
        tag = f'"{entity_tag(found.piece.size, found.piece.changed_ns)}"'
        if asked is not None and request.headers.get("if-range", tag) != tag:
            await found.content.aclose()
            asked, found = None, await self._open(request, caller, ByteRange())
            tag = f'"{entity_tag(found.piece.size, found.piece.changed_ns)}"'
        await rest.enter_async_context(aclosing(found.content))
        piece, headers = found.piece, _headers(str(request.path_params["path"]), tag)
        if request.headers.get("if-none-match") == tag:
            await rest.aclose()
            return Response(status_code=304, headers=headers)
        if asked is not None and piece.length == 0:
            await rest.aclose()
            headers["content-range"] = f"bytes */{piece.size}"
            return Response(status_code=416, headers=headers)
        headers["content-length"] = str(piece.length)
        if asked is not None:
            headers["content-range"] = f"bytes {piece.offset}-{piece.offset + piece.length - 1}/{piece.size}"
        status = 200 if asked is None else 206
        if request.method == "HEAD":
            await rest.aclose()
            return Response(status_code=status, headers=headers)
        return Download(self._content(found, caller), status, headers, rest=rest)

    async def _open(self, request: Request, caller: Caller, asked: ByteRange) -> OpenedResult:
        session_id, path = str(request.path_params["session_id"]), str(request.path_params["path"])
        rank = request.query_params.get("rank", "0")
        if not rank.isdecimal() or len(rank) > 9 or set(request.query_params) - {"rank"}:
            raise InvalidRequest("rank: give a whole number from 0; there is no other parameter", field="rank")
        return await self._files.open(
            caller, session_id, path, rank=int(rank), offset=asked.offset, length=asked.length
        )

    async def _content(self, found: OpenedResult, caller: Caller) -> AsyncGenerator[bytes, None]:
        """The content at a limited rate, no longer than the caller's rights last."""
        pace, ended = DataRateLimit(self._limits.stream_bytes_per_s), asyncio.Event()
        with self._open_connections.of_caller(caller, ended.set):
            async for data in found.content:
                if ended.is_set():
                    raise Unavailable("the key of this download has ended")
                await pace.take(len(data))
                yield data


def _headers(path: str, tag: str) -> dict[str, str]:
    name = quote(path.rpartition("/")[2], safe="")
    return {
        "accept-ranges": "bytes",
        "cache-control": "no-store",
        "content-disposition": f"attachment; filename*=UTF-8''{name}",
        "content-security-policy": POLICY,
        "content-type": MEDIA_TYPE,
        "etag": tag,
    }
