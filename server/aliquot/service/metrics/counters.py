"""Counters and histograms, and the measures of passes, reservations and the database.

They are written on the event loop and read from any thread. Label values are given in the order of the label names
and must come from a closed set, or from the cluster's devices: values that users choose would grow without bound.
"""

import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Literal, Protocol

from aliquot.service.ports import StoreUnavailable
from aliquot_schema.ids import SessionId
from aliquot_schema.sessions import Session

Values = tuple[str, ...]

SHORT_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper edges for the server's own work."""
LONG_S: Final = (1.0, 10.0, 60.0, 300.0, 1_800.0, 3_600.0, 21_600.0, 86_400.0, 259_200.0, 604_800.0)
"""Upper edges for wait and run times of sessions: a second to a week."""


class Tally:
    """Counter: monotonic sums, one per combination of label values."""

    def __init__(self, *labels: str) -> None:
        self.labels: Final = labels
        self._sums: dict[Values, float] = {}

    def add(self, *values: str, amount: float = 1.0) -> None:
        """Add to a sum.

        Args:
            amount: >= 0.
        """
        self._sums[values] = self._sums.get(values, 0.0) + amount

    def begin(self, *values: str) -> None:
        """Export 0 before the first count, so that rates exist from the start."""
        self._sums.setdefault(values, 0.0)

    def sums(self) -> dict[Values, float]:
        """A copy."""
        return self._sums.copy()


class Histogram:
    """Cumulative histogram: counts per bucket, and the sum of the values."""

    def __init__(self, edges: tuple[float, ...], *labels: str) -> None:
        """
        Args:
            edges: upper edges, ascending, inclusive.
        """
        self.labels: Final = labels
        self.edges: Final = edges
        self._counts: dict[Values, list[int]] = {}
        self._sums: dict[Values, float] = {}
        if not labels:
            self.begin()

    def begin(self, *values: str) -> None:
        """Export a combination of labels before its first value."""
        if values not in self._counts:
            self._sums[values] = 0.0
            self._counts[values] = [0] * (len(self.edges) + 1)

    def observe(self, value: float, *values: str) -> None:
        """Add one value."""
        if values not in self._counts:
            self.begin(*values)
        self._counts[values][bisect_left(self.edges, value)] += 1
        self._sums[values] += value

    def shown(self) -> list[tuple[Values, list[int], float]]:
        """(label values, cumulative counts per edge with the total last, sum of the values)."""
        return [
            (values, _cumulative(list(counts)), self._sums[values]) for values, counts in self._counts.copy().items()
        ]


def _cumulative(counts: list[int]) -> list[int]:
    total = 0
    return [total := total + count for count in counts]


class PassOutcome(Protocol):
    """Outcome of one pass, see `aliquot.service.scheduling.allocator.PassCounts`."""

    @property
    def placed(self) -> int:
        """Sessions and tasks placed."""

    @property
    def overtaken(self) -> int:
        """Placements rejected by the re-check against the newest state."""


class PassMeasures:
    """Measures of this server's scheduling passes."""

    def __init__(self) -> None:
        self.seconds = Histogram(SHORT_S)
        """From the snapshot until the plan is applied."""
        self.items = Tally("outcome")
        """Planned placements: `carried_out`, or `refused` at the re-check."""
        for outcome in ("carried_out", "refused"):
            self.items.begin(outcome)

    def ends(self, outcome: PassOutcome, *, took_s: float) -> None:
        """Count a finished pass."""
        self.seconds.observe(took_s)
        self.items.add("carried_out", amount=outcome.placed)
        self.items.add("refused", amount=outcome.overtaken)


SLACK_US: Final = 5_000_000
"""Tolerance for a kept reservation: detecting free devices, deciding and committing take time."""


class Promises:
    """Reservation accuracy: how many promised start times were kept.

    A reservation is open from the first pass that promises a start until the session starts, or until a pass makes no
    promise any more, because a more urgent session came, or the session was changed, held or canceled.
    """

    def __init__(self) -> None:
        self.made = Tally()
        self.ended = Tally("outcome")
        """`kept`, `late`, or `withdrawn`."""
        self.made.begin()
        for outcome in ("kept", "late", "withdrawn"):
            self.ended.begin(outcome)
        self._open: dict[SessionId, int] = {}
        """First promised start time of each, microseconds UTC."""

    def note(self, promised_us: Mapping[SessionId, int]) -> None:
        """Record all promises of a pass."""
        for session_id in [name for name in self._open if name not in promised_us]:
            del self._open[session_id]
            self.ended.add("withdrawn")
        for session_id, at_us in promised_us.items():
            if session_id not in self._open:
                self._open[session_id] = at_us
                self.made.add()

    def start(self, session: Session) -> None:
        """Record that a session was allocated its devices."""
        promised_us = self._open.pop(session.id, None)
        if promised_us is not None and session.scheduled_us is not None:
            self.ended.add("kept" if session.scheduled_us <= promised_us + SLACK_US else "late")

    def forget(self) -> None:
        """Forget open reservations: another server leads."""
        self._open.clear()


Work = Literal["commit", "write", "read"]
WORK: Final[tuple[Work, ...]] = ("commit", "write", "read")

DOWN_S_AFTER_WRITE: Final = 30.0
"""After a failed write the database counts as down for this long, even if reads succeed."""


class StoreMeasures:
    """Measures of the database: durations, failures, and whether it is up. Updated by the store."""

    def __init__(self) -> None:
        self.seconds = Histogram(SHORT_S, "work")
        self.faults = Tally("work")
        """Operations that failed."""
        self.is_up = True
        self._not_written_at: float | None = None
        for work in WORK:
            self.seconds.begin(work)
            self.faults.begin(work)

    @contextmanager
    def timed(self, work: Work) -> Iterator[None]:
        """Measure an operation. Only `StoreUnavailable` counts as a failure; other exceptions are answers."""
        began = time.perf_counter()
        try:
            yield
        except StoreUnavailable:
            self.faults.add(work)
            self.is_up = False
            if work != "read":
                self._not_written_at = time.monotonic()
            raise
        finally:
            self.seconds.observe(time.perf_counter() - began, work)
        self._answered(work)

    def note_silence(self) -> None:
        """Record that a probe was not answered in time."""
        self.is_up = False

    def _answered(self, work: Work) -> None:
        if work != "read":
            self._not_written_at = None
        if self._not_written_at is None or time.monotonic() - self._not_written_at > DOWN_S_AFTER_WRITE:
            self.is_up = True
