"""Scoring: the correction learned from the outcomes of recorded forecasts, and the report on their accuracy.

Outcomes are learned in the order of their times, so that the records of the last 90 days give the same correction again
after a restart.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.foresight.accuracy import (
    SHOWN_MIN,
    Accuracy,
    BasisChoice,
    GroupAccuracy,
    RecentWaits,
    ResolvedForecast,
    accuracy_of,
    by_choice,
    like,
)
from aliquot.core.foresight.bands import Corrections
from aliquot.core.foresight.forecast import HOUR_US, Forecast, ForecastBasis
from aliquot.core.foresight.shown_forecasts import (
    AGES_S,
    DAY_US,
    KEPT_US,
    ForecastOutcome,
    ForecastRecord,
    ShownForecast,
)
from aliquot_schema.ids import SessionId

RECORDS_MAX: Final = 20_000
"""Judged forecasts kept in memory, per age; the newest."""
LATE_MAX: Final = 50_000
AGE_GROUPS: Final = {900: "told again after 15 min", 3600: "told again after 1 h", 14_400: "told again after 4 h"}


class AccuracyReport(Struct, frozen=True, kw_only=True):
    """How right the forecasts of the last 90 days were."""

    groups: tuple[GroupAccuracy, ...] = ()
    """All first, then by size, queue, told P50 and the like; forecasts told again later come last."""
    waited: int = 0
    """Forecasts that said to wait."""
    started_now: int = 0
    """Forecasts that said `now`."""
    now_true: int = 0
    """Of these judged ones, how many started within the next pass."""
    unknown: int = 0
    """Sessions that were told that their start is unknown."""
    censored: int = 0
    """Sessions that left the queue inside their band, which are not judged."""
    at_once: int = 0
    """Sessions that started without waiting for a forecast."""
    runs: int = 0
    """Ended runs that forecasts are based on."""
    since_us: int | None = None
    """The oldest forecast that is counted; None = there is none."""


COUNTED_US: Final = 20_000_000
DAYS_MAX: Final = 2 * KEPT_US // DAY_US
"""Days whose counts are kept: more than are counted, as a clock that is far ahead for a moment adds later ones."""
NOW_SLACK_US: Final = 60_000_000
"""A session that was told `now` has started by then."""


class _Counts:
    """Numbers of records, by the day when the forecast was made."""

    def __init__(self) -> None:
        self._by_day: dict[int, Counter[str]] = {}
        self._first_us: dict[int, int] = {}
        """When the first counted forecast of each day was made."""

    def add(self, record: ForecastRecord, what: str, number: int = 1) -> None:
        """Count a record."""
        day = record.made_us // DAY_US
        self._by_day.setdefault(day, Counter())[what] += number
        self._first_us[day] = min(self._first_us.get(day, record.made_us), record.made_us)
        if len(self._by_day) > DAYS_MAX:
            oldest = min(self._by_day)
            del self._by_day[oldest], self._first_us[oldest]

    def of(self, what: str, *, from_day: int) -> int:
        """How many were counted as this, from a day on."""
        return sum(counts[what] for day, counts in self._by_day.items() if day >= from_day)

    def since_us(self, *, from_day: int) -> int | None:
        """When the oldest of them was made."""
        return min((first_us for day, first_us in self._first_us.items() if day >= from_day), default=None)


class ForecastScorer:
    """Learns from the outcomes of records; corrects and gates forecasts by them."""

    def __init__(self) -> None:
        self.corrections = Corrections.new()
        self._recent = RecentWaits()
        self._choice = BasisChoice()
        self._accuracy = Accuracy(most=RECORDS_MAX)
        self._again: dict[int, deque[ResolvedForecast]] = {
            age_s: deque(maxlen=RECORDS_MAX) for age_s in AGES_S if age_s
        }
        self._counts = _Counts()
        self._days: Counter[int] = Counter()
        self._late: dict[SessionId, ForecastRecord] = {}
        """First forecasts of sessions that still wait after their P90: misses, whatever they wait in the end."""
        self._alike: dict[str, GroupAccuracy] = {}
        self._groups: tuple[GroupAccuracy, ...] = ()
        self._counted_us: int | None = None
        """When the groups were counted last; None = never."""
        self._is_counted = True

    def replay(self, records: Iterable[ForecastRecord]) -> None:
        """Learn from stored records."""
        self.learn(record for _, record in sorted(_steps(records), key=lambda step: step[0]))

    def learn(self, records: Iterable[ForecastRecord]) -> None:
        """Learn from what has become known of each record: that it is late, has started, has left or has ended."""
        for record in records:
            self._score(record)

    def _score(self, record: ForecastRecord) -> None:
        self._is_counted = False
        if record.age_s:
            self._score_again(record)
        elif record.ended_us is not None:
            self._learn_end(record)
        elif record.outcome is ForecastOutcome.LATE:
            self._learn_late(record)
        elif record.outcome is ForecastOutcome.STARTED:
            self._learn_start(record)
        elif record.outcome is ForecastOutcome.CANCELED:
            self._learn_cancel(record)
        else:
            self._late.pop(record.session_id, None)

    def shown(self, forecast: Forecast, *, waited_us: int = 0) -> ShownForecast:
        """The forecast that is shown for a session.

        Args:
            waited_us: how long it has waited so far.
        """
        features = forecast.features
        recent_us = self._recent.band(pool=features.pool, milli=features.milli, waited_us=waited_us)
        alike = self._alike.get(like(features)) if forecast.start_us is not None and not forecast.starts_now else None
        return ShownForecast(
            forecast=by_choice(forecast, recent_us, self._choice),
            simulated_us=forecast.start_us,
            recent_us=recent_us,
            average_us=self._recent.average_us(pool=features.pool, milli=features.milli),
            alike=0 if alike is None or alike.n < SHOWN_MIN else alike.n,
            alike_inside=0.0 if alike is None else alike.inside,
        )

    def note_days(self, at_once: Iterable[tuple[int, int]]) -> None:
        """Count (day, sessions that started without waiting for a forecast)."""
        for day, count in at_once:
            self._days[day] += count
            if len(self._days) > DAYS_MAX:
                del self._days[min(self._days)]

    def report(self, *, runs: int, now_us: int) -> AccuracyReport:
        """The accuracy so far. Groups are counted again only after an outcome, and at most once in `COUNTED_US`.

        Args:
            runs: ended runs that forecasts are based on.
        """
        is_recent = self._counted_us is not None and 0 <= now_us - self._counted_us < COUNTED_US
        if not self._is_counted and not is_recent:
            self._is_counted, self._counted_us = True, now_us
            counted = self._accuracy.groups(now_us=now_us, waiting=self._waiting(now_us))
            self._alike = {group.group: group for group in counted}
            again = [
                accuracy_of(AGE_GROUPS[age_s], tuple(resolved)) for age_s, resolved in self._again.items() if resolved
            ]
            self._groups = (*counted, *again)
        counts, from_day = self._counts, now_us // DAY_US - KEPT_US // DAY_US
        return AccuracyReport(
            groups=self._groups,
            waited=counts.of("waited", from_day=from_day),
            started_now=counts.of("now", from_day=from_day),
            now_true=counts.of("now true", from_day=from_day),
            unknown=counts.of("unknown", from_day=from_day),
            censored=counts.of("censored", from_day=from_day),
            at_once=sum(count for day, count in self._days.items() if day >= from_day),
            runs=runs,
            since_us=counts.since_us(from_day=from_day),
        )

    def _waiting(self, now_us: int) -> Iterator[ResolvedForecast]:
        """First forecasts of sessions that wait after their P90, with the wait so far."""
        for record in self._late.values():
            yield replace(_resolved(record, max(now_us - record.made_us, 0)), is_waiting=True)

    def _learn_late(self, record: ForecastRecord) -> None:
        if record.shown.says_wait and record.session_id not in self._late:
            self._late[record.session_id] = record
            if len(self._late) > LATE_MAX:
                del self._late[next(iter(self._late))]
            forecast = record.shown.forecast
            assert forecast.start_us is not None
            # The band of recent waits has passed, not that of the simulation, which is judged when it starts.
            if forecast.basis is ForecastBasis.SIMULATION:
                self.corrections.starts.overdue(pool=forecast.features.pool, at_us=forecast.start_us.p90)

    def _learn_start(self, record: ForecastRecord) -> None:
        assert record.settled_us is not None
        forecast, shown = record.shown.forecast, record.shown
        wait_us, pool = max(record.settled_us - record.made_us, 0), forecast.features.pool
        self._count(record)
        if not forecast.starts_now:
            self._recent.learn(wait_us, pool=pool, milli=forecast.features.milli)
        else:
            self._counts.add(record, "now true", wait_us <= NOW_SLACK_US)
        was_late = self._late.pop(record.session_id, None) is not None and forecast.basis is ForecastBasis.SIMULATION
        if not shown.says_wait:
            return
        self._accuracy.add(_resolved(record, wait_us))
        if shown.simulated_us is not None:
            simulated = shown.simulated_us.later(-record.made_us)
            self.corrections.starts.resolved(
                wait_us, simulated, pool=pool, at_us=record.settled_us, was_overdue=was_late
            )
            self._choice.learn(simulated, shown.recent_us, wait_us=wait_us, pool=pool)
        if forecast.raw_within_hour is not None:
            self.corrections.within_hour.learn(forecast.raw_within_hour, started=wait_us <= HOUR_US)

    def _learn_cancel(self, record: ForecastRecord) -> None:
        assert record.settled_us is not None
        self._count(record)
        self._late.pop(record.session_id, None)
        start_us = record.shown.forecast.start_us
        if not record.shown.says_wait or start_us is None:
            return
        if record.settled_us > start_us.p90:
            self._accuracy.add(_resolved(record, record.settled_us - record.made_us))
        else:
            self._counts.add(record, "censored")

    def _learn_end(self, record: ForecastRecord) -> None:
        end_us, ended_us = record.shown.forecast.end_us, record.ended_us
        if end_us is not None and ended_us is not None:
            self.corrections.ends.resolved(
                max(ended_us - record.made_us, 0),
                end_us.later(-record.made_us),
                pool=record.shown.forecast.features.pool,
                at_us=ended_us,
                was_overdue=False,
            )

    def _score_again(self, record: ForecastRecord) -> None:
        is_start = record.outcome is ForecastOutcome.STARTED and record.ended_us is None
        if is_start and record.shown.says_wait and record.settled_us is not None:
            self._again[record.age_s].append(_resolved(record, max(record.settled_us - record.made_us, 0)))

    def _count(self, record: ForecastRecord) -> None:
        forecast = record.shown.forecast
        what = "now" if forecast.starts_now else "unknown" if forecast.start_us is None else "waited"
        self._counts.add(record, what)


def _resolved(record: ForecastRecord, wait_us: int) -> ResolvedForecast:
    start_us = record.shown.forecast.start_us
    assert start_us is not None
    return ResolvedForecast(
        made_us=record.made_us,
        features=record.shown.forecast.features,
        shown=start_us.later(-record.made_us),
        wait_us=wait_us,
        baseline_us=record.shown.average_us,
    )


def _steps(records: Iterable[ForecastRecord]) -> Iterator[tuple[int, ForecastRecord]]:
    """(time, what was known then) of each record."""
    for record in records:
        start_us = record.shown.forecast.start_us
        known_us = record.settled_us
        if start_us is not None and (record.outcome is ForecastOutcome.LATE or (known_us or 0) > start_us.p90):
            yield start_us.p90, replace(record, outcome=ForecastOutcome.LATE, settled_us=None, ended_us=None)
        if known_us is not None:
            yield known_us, replace(record, ended_us=None)
        if record.ended_us is not None:
            yield record.ended_us, record
