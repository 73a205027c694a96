"""`GET /metrics`: one scrape at a time, made in a thread, so that nobody waits for it but whoever asked."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from prometheus_client.exposition import gzip_accepted
from starlette.requests import Request
from starlette.responses import Response

from aliquot.api.metrics.access import MetricsAccess
from aliquot.api.metrics.exposition import Scrape, exposed
from aliquot.api.refusals import unauthenticated
from aliquot_schema.errors import Unauthenticated

SCRAPES_MAX: Final = 5
"""One is made, four wait; whoever comes then is told to come later."""


class MetricsEndpoint:
    """`look` takes the scrape, in the event loop and in one step."""

    def __init__(self, look: Callable[[], Scrape], *, access: MetricsAccess) -> None:
        self._look = look
        self._access = access
        self._turn = asyncio.Lock()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="metrics")
        """Not one of those for `to_thread`, which whatever has to be quick waits for."""
        self._open = 0

    async def answer(self, request: Request) -> Response:
        """Answer one scrape."""
        try:
            self._access.check(request)
        except Unauthenticated as error:
            return unauthenticated(request.scope, error)
        if self._open >= SCRAPES_MAX:
            return Response("Too many scrapes at once.\n", 503, {"retry-after": "5", "content-type": "text/plain"})
        self._open += 1
        try:
            async with self._turn:
                return await self._scraped(request)
        finally:
            self._open -= 1

    async def _scraped(self, request: Request) -> Response:
        accept = request.headers.get("accept", "")
        zipped = gzip_accepted(request.headers.get("accept-encoding", ""))
        scrape = self._look()
        loop = asyncio.get_running_loop()
        text, content_type = await loop.run_in_executor(
            self._worker, lambda: exposed(scrape, accept=accept, zipped=zipped)
        )
        headers = {"content-type": content_type, "vary": "accept, accept-encoding"}
        if zipped:
            headers["content-encoding"] = "gzip"
        return Response(text, headers=headers)
