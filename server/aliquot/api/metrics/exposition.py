"""Metrics endpoint `GET /metrics`: access, a consistent copy of all sources, and encoding.

Values are copied in one step of the event loop and encoded in a thread, one scrape at a time, so that other requests do
not wait. Metrics name nodes, agents and devices, but never users or sessions.
"""

import asyncio
import gzip
import hmac
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from msgspec import Struct, field
from prometheus_client import ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder, gzip_accepted
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from aliquot.api.authentication import TokenAuth
from aliquot.api.metrics.families import (
    activity_families,
    device_families,
    fleet_families,
    forecast_families,
    gpu_families,
    physical_devices,
    queue_families,
)
from aliquot.api.metrics.server import (
    ServerFigures,
    api_families,
    availability_families,
    database_families,
    server_families,
)
from aliquot.api.refusals import unauthenticated
from aliquot.service.metrics.cluster_view import ClusterView, cluster_view
from aliquot.service.metrics.counters import StoreMeasures
from aliquot.service.metrics.health import Availability, LoopLag
from aliquot.service.metrics.metrics import Measures
from aliquot.service.state.state import State
from aliquot_schema.errors import Unauthenticated

_SCHEME: Final = "bearer "

_process = ProcessCollector(registry=None)
SCRAPES_MAX: Final = 5
"""Scrapes in progress: one runs, four wait, others get 503."""


class MetricsAccess:
    """Grants access to every key or cookie of any role, to the metrics token, or to everyone."""

    def __init__(self, auth: TokenAuth, *, token: str | None = None, is_open: bool = False) -> None:
        """
        Args:
            token: grants access to the metrics only; None = there is none.
            is_open: no credentials needed; safe only on loopback.
        """
        self._auth = auth
        self._token = None if token is None else token.encode()
        self._is_open = is_open

    def check(self, request: Request) -> None:
        """Check the credentials of a request.

        Raises:
            Unauthenticated: they do not grant access to the metrics.
        """
        if not self._is_open and not self._has_token(request.headers.get("authorization", "")):
            self._auth.authenticate(request)

    def _has_token(self, authorization: str) -> bool:
        if self._token is None or not authorization.lower().startswith(_SCHEME):
            return False
        return hmac.compare_digest(authorization[len(_SCHEME) :].strip().encode(), self._token)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape(Collector):
    """A copy of all values of a server; any thread may encode it."""

    server: tuple[Metric, ...]
    measures: Measures
    view: ClusterView | None
    """None = this server follows, so metrics that only a leader has are left out."""

    def collect(self) -> Iterator[Metric]:
        """All metric families."""
        yield from self.server
        yield from _process.collect()
        if self.view is not None:
            parts = physical_devices(self.view)
            yield from gpu_families(parts)
            yield from fleet_families(self.view)
            yield from queue_families(self.view)
            yield from forecast_families(self.view)
            yield from activity_families(self.measures)
            yield from device_families(parts, self.measures.devices)


def exposed(scrape: Scrape, *, accept: str, zipped: bool) -> tuple[bytes, str]:
    """Text and its content type. Takes a second for ten thousand devices, so not in the event loop."""
    encode, content_type = choose_encoder(accept)
    text = encode(scrape)
    return gzip.compress(text, compresslevel=1) if zipped else text, content_type


class MetricsEndpoint:
    """Serves `/metrics`; `read` takes the copy, in the event loop and in one step."""

    def __init__(self, read: Callable[[], Scrape], *, access: MetricsAccess) -> None:
        self._read = read
        self._access = access
        self._lock = asyncio.Lock()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="metrics")
        """Its own thread: those of `to_thread` are for short work."""
        self._open = 0

    async def answer(self, request: Request) -> Response:
        """Answer one scrape."""
        try:
            self._access.check(request)
        except Unauthenticated as error:
            return unauthenticated(request.scope, error)
        if self._open >= SCRAPES_MAX:
            return Response(
                "Too many scrapes are in progress; try again in 5 s.\n",
                503,
                {"retry-after": "5", "content-type": "text/plain"},
            )
        self._open += 1
        try:
            async with self._lock:
                return await self._scraped(request)
        finally:
            self._open -= 1

    async def _scraped(self, request: Request) -> Response:
        accept = request.headers.get("accept", "")
        zipped = gzip_accepted(request.headers.get("accept-encoding", ""))
        scrape = self._read()
        loop = asyncio.get_running_loop()
        text, content_type = await loop.run_in_executor(
            self._worker, lambda: exposed(scrape, accept=accept, zipped=zipped)
        )
        headers = {"content-type": content_type, "vary": "accept, accept-encoding"}
        if zipped:
            headers["content-encoding"] = "gzip"
        return Response(text, headers=headers)


class MetricsSources(Struct, frozen=True, kw_only=True):
    """Sources of one server."""

    state: State
    measures: Measures
    database: StoreMeasures
    leads: Callable[[], bool]
    now_us: Callable[[], int]
    version: str
    lag: LoopLag = field(default_factory=LoopLag)
    availability: Availability = field(default_factory=Availability)
    token: str | None = None
    """Grants access to the metrics only; None = there is none."""
    is_open: bool = False
    """Whether no credentials are needed."""

    def read(self, figures: ServerFigures) -> Scrape:
        """Copy all values in one step of the event loop."""
        leads, revision = self.leads(), self.state.revision
        return Scrape(
            server=(
                *server_families(version=self.version, leads=leads, revision=revision, lag=self.lag),
                *api_families(figures),
                *availability_families(self.availability),
                *database_families(self.database),
            ),
            measures=self.measures,
            view=cluster_view(self.state, now_us=self.now_us()) if leads else None,
        )

    def access(self, auth: TokenAuth) -> MetricsAccess:
        """The access control."""
        return MetricsAccess(auth, token=self.token, is_open=self.is_open)
