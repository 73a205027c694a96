"""Counters and histograms, and the measures of passes, reservations, forecasts and the database.

Label values must come from a closed set, or from the cluster's devices: values that users choose would grow without
bound. Names are `aliquot_`, then the quantity in base units (seconds, bytes, ratio); counters end in `_total`. Source:
Prometheus, Metric and label naming; the OpenMetrics specification, 1.0.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Literal, Protocol

from prometheus_client import Counter, Histogram, disable_created_metrics

from aliquot.core.foresight.shown_forecasts import ForecastOutcome, ForecastRecord, ShownForecast
from aliquot.service.ports import StoreUnavailable
from aliquot_schema.ids import SessionId
from aliquot_schema.sessions import Session

SHORT_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper edges for the server's own work."""
BACKGROUND_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper edges for work in the background."""
LONG_S: Final = (1.0, 10.0, 60.0, 300.0, 1_800.0, 3_600.0, 21_600.0, 86_400.0, 259_200.0, 604_800.0)
"""Upper edges for wait and run times of sessions: a second to a week."""


# Otherwise each value would be exported a second time, with the time of its creation.
disable_created_metrics()  # type: ignore[no-untyped-call]


def counter(name: str, text: str, *labels: str) -> Counter:
    """A sum that never falls, per combination of label values."""
    return Counter(f"aliquot_{name}", text, labels, registry=None)


def histogram(name: str, text: str, edges: tuple[float, ...], *labels: str) -> Histogram:
    """Counts below each edge, and the sum of the values.

    Args:
        edges: upper edges, ascending, inclusive.
    """
    return Histogram(f"aliquot_{name}", text, labels, buckets=edges, registry=None)


def export_zeros(metric: Counter | Histogram, values: Iterable[str]) -> None:
    """Export 0 for these values of a metric's only label before they are first counted, so that rates exist."""
    for value in values:
        metric.labels(value)


class PassOutcome(Protocol):
    """Outcome of one pass, see `aliquot.service.scheduling.allocator.PassCounts`."""

    @property
    def placed(self) -> int:
        """Sessions and tasks placed."""

    @property
    def outdated(self) -> int:
        """Placements rejected by the re-check against the newest state."""


class PassMeasures:
    """Measures of this server's scheduling passes."""

    def __init__(self) -> None:
        text = "From the snapshot of the cluster until the plan made from it is applied."
        self.seconds = histogram("scheduling_pass_seconds", text, SHORT_S)
        text = "Placements of plans: applied, or rejected by the check against the newest state."
        self.items = counter("placements", text, "outcome")
        export_zeros(self.items, ("carried_out", "refused"))
        self._carried_out, self._refused = self.items.labels("carried_out"), self.items.labels("refused")

    def ends(self, outcome: PassOutcome, *, took_s: float) -> None:
        """Count a finished pass."""
        self.seconds.observe(took_s)
        self._carried_out.inc(outcome.placed)
        self._refused.inc(outcome.outdated)


SLACK_US: Final = 5_000_000
"""Tolerance for a kept reservation: detecting free devices, deciding and committing take time."""


class ReservationAccuracy:
    """Reservation accuracy: how many promised start times were kept.

    A reservation is open from the first pass that promises a start until the session starts, or until a pass makes no
    promise any more, because a more urgent session came, or the session was changed, held or canceled.
    """

    def __init__(self) -> None:
        self.made = counter("reservations", "Reserved start times that passes gave to waiting sessions.")
        text = "Outcome of these reservations: kept, late, or withdrawn before devices were allocated."
        self.ended = counter("reservations_ended", text, "outcome")
        export_zeros(self.ended, ("kept", "late", "withdrawn"))
        self._open: dict[SessionId, int] = {}
        """First promised start time of each, microseconds UTC."""

    def note(self, promised_us: Mapping[SessionId, int]) -> None:
        """Record all promises of a pass."""
        for session_id in [name for name in self._open if name not in promised_us]:
            del self._open[session_id]
            self.ended.labels("withdrawn").inc()
        for session_id, at_us in promised_us.items():
            if session_id not in self._open:
                self._open[session_id] = at_us
                self.made.inc()

    def start(self, session: Session) -> None:
        """Record that a session was allocated its devices."""
        promised_us = self._open.pop(session.id, None)
        if promised_us is not None and session.scheduled_us is not None:
            is_kept = session.scheduled_us <= promised_us + SLACK_US
            self.ended.labels("kept" if is_kept else "late").inc()

    def forget(self) -> None:
        """Forget open reservations: another server leads."""
        self._open.clear()


class ForecastMeasures:
    """Measures of the forecasts that this server has made, recorded and judged."""

    def __init__(self) -> None:
        text = "Processor time of the forecast process per request of the leader."
        self.seconds = histogram("forecast_seconds", text, BACKGROUND_S)
        self.restarts = counter("forecast_process_restarts", "Times that the forecast process ended.")
        self.answers = counter("forecasts_told", "Sessions that were told a first forecast, by what it says.", "answer")
        text = "First forecasts that said to wait, by where the start was: in the band, before or after it, or nowhere."
        self.outcomes = counter("forecasts_judged", text, "outcome")
        export_zeros(self.answers, ("now", "wait", "unknown"))
        export_zeros(self.outcomes, ("inside", "early", "late", "canceled"))

    def count_first(self, shown: ShownForecast) -> None:
        """Count a first forecast."""
        self.answers.labels("now" if shown.forecast.starts_now else "wait" if shown.says_wait else "unknown").inc()

    def judge(self, record: ForecastRecord) -> None:
        """Count the outcome of a first forecast, when its session has started or left."""
        start_us, settled_us = record.shown.forecast.start_us, record.settled_us
        if not record.shown.says_wait or start_us is None or settled_us is None or record.ended_us is not None:
            return
        if record.outcome is ForecastOutcome.CANCELED and settled_us <= start_us.p90:
            self.outcomes.labels("canceled").inc()
        else:
            is_inside = start_us.contains(settled_us)
            self.outcomes.labels("inside" if is_inside else "early" if settled_us < start_us.p50 else "late").inc()


Work = Literal["commit", "write", "read"]
WORK: Final[tuple[Work, ...]] = ("commit", "write", "read")

DOWN_S_AFTER_WRITE: Final = 30.0
"""After a failed write the database counts as down for this long, even if reads succeed."""


class StoreMeasures:
    """Measures of the database: durations, failures, and whether it is up. Updated by the store."""

    def __init__(self) -> None:
        text = "Duration of database operations: commits including their wait for each other, other writes, and reads."
        self.seconds = histogram("database_seconds", text, SHORT_S, "work")
        self.faults = counter("database_faults", "Failed database operations.", "work")
        self.is_up = True
        self._not_written_at: float | None = None
        export_zeros(self.seconds, WORK)
        export_zeros(self.faults, WORK)
        self._seconds = {work: self.seconds.labels(work) for work in WORK}

    @contextmanager
    def timed(self, work: Work) -> Iterator[None]:
        """Measure an operation. Only `StoreUnavailable` counts as a failure; other exceptions are answers."""
        began = time.perf_counter()
        try:
            yield
        except StoreUnavailable:
            self.faults.labels(work).inc()
            self.is_up = False
            if work != "read":
                self._not_written_at = time.monotonic()
            raise
        finally:
            self._seconds[work].observe(time.perf_counter() - began)
        self._answered(work)

    def note_silence(self) -> None:
        """Record that a probe was not answered in time."""
        self.is_up = False

    def _answered(self, work: Work) -> None:
        if work != "read":
            self._not_written_at = None
        if self._not_written_at is None or time.monotonic() - self._not_written_at > DOWN_S_AFTER_WRITE:
            self.is_up = True
