"""Request metrics: numbers, outcomes and durations.

Every label comes from a closed list: paths, operations and methods chosen by clients never become labels.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Literal

from starlette.types import Scope

from aliquot.api.job_output import OUTPUTS_PATH
from aliquot.api.refusals import is_rest
from aliquot.service.metrics.counters import SHORT_S, counter, histogram
from aliquot_schema.cluster.agent_protocol import PATH as AGENTS_PATH

Kind = Literal["query", "mutation", "subscription", "read", "write", "socket"]

METRICS_PATH: Final = "/metrics"
_FACES: Final = {
    "/graphql": "graphql",
    AGENTS_PATH: "agents",
    "/healthz": "health",
    "/readyz": "health",
    METRICS_PATH: "metrics",
    OUTPUTS_PATH: "servers",
}
_STREAMS: Final[frozenset[Kind]] = frozenset({"subscription", "socket"})
"""Kinds without a duration: they last as long as the client listens."""


@dataclass(slots=True)
class RequestNotes:
    """Facts about a request that become known while it is processed."""

    kind: Kind
    was_refused: bool = False
    """Rejected although the HTTP status is 200, as GraphQL has it."""
    has_fault: bool = False

    def note_operation(self, kind: Kind, *, refused: bool) -> None:
        """Record the kind of a GraphQL operation. A socket carries many, and stays a socket."""
        if self.kind != "socket":
            self.kind, self.was_refused = kind, refused


_notes: ContextVar[RequestNotes | None] = ContextVar("aliquot_request_notes", default=None)


def request_notes() -> RequestNotes:
    """Notes of the current request; outside of a request they are discarded."""
    return _notes.get() or RequestNotes("read")


class RequestCounts:
    """Counters of one server."""

    def __init__(self) -> None:
        self.ended = counter("requests", "Finished requests, by outcome.", "face", "kind", "outcome")
        text = "Duration of requests without subscriptions."
        self.seconds = histogram("request_seconds", text, SHORT_S, "face", "kind")

    @contextmanager
    def noting(self, scope: Scope) -> Iterator[RequestNotes]:
        """Collect notes while a request is processed."""
        notes = RequestNotes(_kind(scope))
        token = _notes.set(notes)
        try:
            yield notes
        finally:
            _notes.reset(token)

    def end(self, scope: Scope, notes: RequestNotes, *, status: int, took_s: float) -> None:
        """Count a finished request.

        Args:
            status: 0 = the client disconnected before the response.
        """
        face = _interface(scope["path"])
        self.ended.labels(face, notes.kind, _outcome(status, notes)).inc()
        if notes.kind not in _STREAMS:
            self.seconds.labels(face, notes.kind).observe(took_s)


def _kind(scope: Scope) -> Kind:
    if scope["type"] == "websocket":
        return "socket"
    if scope["path"] == OUTPUTS_PATH:
        return "subscription"
    return "read" if scope["method"] in ("GET", "HEAD") else "write"


def _interface(path: str) -> str:
    return _FACES.get(path) or ("rest" if is_rest(path) else "page")


def _outcome(status: int, notes: RequestNotes) -> str:
    if status >= 500 or notes.has_fault:
        return "failed"
    if status >= 400 or notes.was_refused:
        return "refused"
    return "answered" if status else "aborted"
