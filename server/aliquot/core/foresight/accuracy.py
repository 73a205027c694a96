"""Accuracy of forecasts by group, and when recent waits are shown instead.

Only forecasts of a wait are counted in coverage and error: a forecast of "now" is certain, and would hide how good the
others are. Groups go by what was known when the forecast was made, never by the outcome.
"""

from bisect import bisect_right, insort
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.foresight.bands import BAND_MAX_US, Band, hazen
from aliquot.core.foresight.forecast import Features, Forecast, ForecastBasis
from aliquot.core.foresight.run_times import size_class
from aliquot.core.placement.scoreboard import split_mix_64
from aliquot_schema.ids import PoolId

MINUTE_US: Final = 60_000_000
DAY_US: Final = 1440 * MINUTE_US
FACTOR_2_SLACK_US: Final = 5 * MINUTE_US
KEPT_US: Final = 90 * DAY_US
SHOWN_MIN: Final = 50
"""No share is shown of fewer forecasts."""
RESAMPLES: Final = 400
ALL: Final = "all"
WAITS_MAX: Final = 500
WAITS_TRIMMED: Final = 59
MISSES_OF_CHANGE: Final = 3
GATE_COUNT: Final = 100
GATE_COUNT_MIN: Final = 30


class ResolvedForecast(Struct, frozen=True, kw_only=True):
    """A forecast that said to wait, with its truth."""

    made_us: int
    features: Features
    shown: Band
    """Of the wait since it was made, microseconds, as it was shown."""
    wait_us: int
    """The truth."""
    baseline_us: int | None = None
    """What the moving average of waits of its size class was when it was made."""
    is_waiting: bool = False
    """Whether it waits after its P90, and `wait_us` is the wait so far."""

    @property
    def is_inside(self) -> bool:
        """Whether it started inside the band."""
        return self.shown.contains(self.wait_us)


class GroupAccuracy(Struct, frozen=True, kw_only=True):
    """Accuracy of one group of forecasts. Parts are of 1, times microseconds."""

    group: str
    n: int
    days: int
    """Days with such forecasts: errors of one day are much alike."""
    inside: float
    inside_low: float
    """80 % interval of `inside`, by days."""
    inside_high: float
    below: float
    above: float
    within_1_min: float
    within_10_min: float
    within_factor_2: float
    """P50 within a factor 2 of the wait, with 5 minutes added to both."""
    pinball_us: int
    """Mean quantile loss of P10, P50 and P90."""
    baseline_pinball_us: int | None
    """The same for the moving average; None = unknown."""

    def sentence(self) -> str | None:
        """Text like `of 214 like this, 81 % started inside the band`; None below `SHOWN_MIN`."""
        if self.n < SHOWN_MIN:
            return None
        return f"of {self.n} like this, {round(100 * self.inside)} % started inside the band"


def pinball_us(band: Band, wait_us: int) -> int:
    """Mean quantile loss of P10, P50 and P90, microseconds.

    Source: Koenker and Bassett, Regression quantiles (1978).
    """
    losses = (
        (tenths if wait_us >= value else tenths - 10) * (wait_us - value)
        for tenths, value in zip((1, 5, 9), band, strict=True)
    )
    return sum(losses) // 30


def is_within_factor_2(p50_us: int, wait_us: int) -> bool:
    """Whether a wait is half to twice the forecast, with 5 minutes added to both."""
    forecast_us, was_us = p50_us + FACTOR_2_SLACK_US, wait_us + FACTOR_2_SLACK_US
    return forecast_us <= 2 * was_us and was_us <= 2 * forecast_us


def groups_of(features: Features) -> tuple[str, ...]:
    """The groups that a forecast is counted in."""
    return (
        ALL,
        f"size: {features.size}",
        *(["new user"] if features.is_new_user else []),
        f"queue: {features.queue}",
        f"told: {features.told}",
        f"policy: {features.policy_version}",
    )


def like(features: Features) -> str:
    """Forecasts of this group are like it: said to wait as long, for a session of this size."""
    return f"{features.size}, told {features.told}"


class Accuracy:
    """Resolved forecasts."""

    def __init__(self, resolved: Iterable[ResolvedForecast] = (), *, most: int | None = None) -> None:
        """
        Args:
            most: how many are kept, the newest; None = all.
        """
        self._resolved: deque[ResolvedForecast] = deque(maxlen=most)
        for one in resolved:
            self.add(one)

    def add(self, resolved: ResolvedForecast) -> None:
        """Add a forecast, in the order of outcomes."""
        self._resolved.append(resolved)

    def groups(self, *, now_us: int, waiting: Iterable[ResolvedForecast] = ()) -> list[GroupAccuracy]:
        """The accuracy of every group with at least one forecast of the last 90 days, all of them first.

        Args:
            waiting: forecasts of sessions that still wait after their P90, with their waits so far. Without them, a
                policy under which some sessions never start would look right.
        """
        return by_group(one for one in chain(self._resolved, waiting) if one.made_us >= now_us - KEPT_US)


def by_group(resolved: Iterable[ResolvedForecast]) -> list[GroupAccuracy]:
    """The accuracy of every group with at least one forecast, all of them first."""
    members: dict[str, list[ResolvedForecast]] = defaultdict(list)
    for one in resolved:
        for group in (*groups_of(one.features), like(one.features)):
            members[group].append(one)
    return [accuracy_of(group, members[group]) for group in sorted(members, key=lambda name: (name != ALL, name))]


def accuracy_of(group: str, members: Sequence[ResolvedForecast]) -> GroupAccuracy:
    """The accuracy of at least one forecast."""
    n = len(members)
    based = [(one, one.baseline_us) for one in members if one.baseline_us is not None]
    started = [one for one in members if not one.is_waiting]
    low, high = inside_interval(members)
    return GroupAccuracy(
        group=group,
        n=n,
        days=len({one.made_us // DAY_US for one in members}),
        inside=sum(one.is_inside for one in members) / n,
        inside_low=low,
        inside_high=high,
        below=sum(one.wait_us < one.shown.p10 and not one.is_inside for one in members) / n,
        above=sum(one.wait_us > one.shown.p90 and not one.is_inside for one in members) / n,
        within_1_min=sum(abs(one.wait_us - one.shown.p50) <= MINUTE_US for one in started) / n,
        within_10_min=sum(abs(one.wait_us - one.shown.p50) <= 10 * MINUTE_US for one in started) / n,
        within_factor_2=sum(is_within_factor_2(one.shown.p50, one.wait_us) for one in started) / n,
        pinball_us=sum(pinball_us(one.shown, one.wait_us) for one in members) // n,
        baseline_pinball_us=sum(pinball_us(Band(told, told, told), one.wait_us) for one, told in based) // len(based)
        if based
        else None,
    )


def inside_interval(members: Sequence[ResolvedForecast], *, resamples: int = RESAMPLES) -> tuple[float, float]:
    """80 % interval of the part inside the band, by a bootstrap over days: a burst of one day is one event.

    0 to 1 for a single day, which says nothing about others.

    Source: Künsch, The jackknife and the bootstrap for general stationary observations (1989).
    """
    by_day: dict[int, list[int]] = {}
    for one in members:
        counts = by_day.setdefault(one.made_us // DAY_US, [0, 0])
        counts[0] += one.is_inside
        counts[1] += 1
    days = [by_day[day] for day in sorted(by_day)]
    if len(days) == 1:
        return 0.0, 1.0
    parts = []
    for resample in range(resamples):
        drawn = [days[split_mix_64(resample, number) % len(days)] for number in range(len(days))]
        parts.append(1_000_000 * sum(one[0] for one in drawn) // sum(one[1] for one in drawn))
    parts.sort()
    return hazen(parts, 1) / 1e6, hazen(parts, 9) / 1e6


class RecentWaits:
    """Waits of sessions that did wait, by pool and size class: what can be said without a simulation.

    The last 500 of each class give quantiles; three waits in a row above the 95 % quantile drop all but the last 59, so
    that a change is followed. Source: Brevik, Nurmi and Wolski, Predicting bounds on queuing delay (2006).
    """

    def __init__(self) -> None:
        self._classes: dict[tuple[PoolId, int], _Waits] = {}

    def learn(self, wait_us: int, *, pool: PoolId, milli: int) -> None:
        """Add the wait of a session that started."""
        self._classes.setdefault((pool, size_class(milli)), _Waits()).add(wait_us)

    def band(self, *, pool: PoolId, milli: int, waited_us: int = 0) -> Band | None:
        """Quantiles of how much longer sessions of its class waited that had waited as long; None without any."""
        known = self._classes.get((pool, size_class(milli)))
        longer = [] if known is None else known.ordered[bisect_right(known.ordered, waited_us) if waited_us else 0 :]
        if not longer:
            return None
        return Band(*(min(hazen(longer, tenths) - waited_us, BAND_MAX_US) for tenths in (1, 5, 9)))

    def average_us(self, *, pool: PoolId, milli: int) -> int | None:
        """Moving average of the waits of its class with weight 0.1 for the last; None without any."""
        known = self._classes.get((pool, size_class(milli)))
        return None if known is None else known.average_us


class _Waits:
    def __init__(self) -> None:
        self._recent: deque[int] = deque()
        self._above = 0
        self.ordered: list[int] = []
        self.average_us = 0

    def add(self, wait_us: int) -> None:
        is_above = len(self.ordered) >= WAITS_TRIMMED and wait_us > self.ordered[len(self.ordered) * 95 // 100]
        self._above = self._above + 1 if is_above else 0
        self.average_us += (wait_us - self.average_us) // 10 if self._recent else wait_us
        self._recent.append(wait_us)
        insort(self.ordered, wait_us)
        has_changed = self._above >= MISSES_OF_CHANGE
        most = WAITS_TRIMMED if has_changed else WAITS_MAX
        if len(self._recent) > most:
            self._recent = deque(list(self._recent)[-most:])
            self.ordered = sorted(self._recent)
        if has_changed:
            self._above = 0


class BasisChoice:
    """Whether recent waits were clearly better than the simulation, per pool: over the last 100 resolved forecasts its
    quantile loss is more than 1.5 times theirs. A lower threshold does harm on public logs."""

    def __init__(self) -> None:
        self._losses: dict[PoolId, deque[tuple[int, int]]] = {}

    def learn(self, simulated: Band, recent: Band | None, *, wait_us: int, pool: PoolId) -> None:
        """Add a resolved forecast with what recent waits would have said."""
        if recent is not None:
            losses = self._losses.setdefault(pool, deque(maxlen=GATE_COUNT))
            losses.append((pinball_us(simulated, wait_us), pinball_us(recent, wait_us)))

    def prefers_recent_waits(self, pool: PoolId) -> bool:
        """Whether recent waits are to be shown instead, and the text should say so."""
        losses = self._losses.get(pool, ())
        if len(losses) < GATE_COUNT_MIN:
            return False
        return 2 * sum(one[0] for one in losses) > 3 * sum(one[1] for one in losses)


def by_choice(forecast: Forecast, recent: Band | None, choice: BasisChoice) -> Forecast:
    """The forecast, by recent waits where these are preferred and the session does not start now.

    Args:
        recent: what recent waits say; None = nothing.
    """
    if (
        forecast.start_us is None
        or forecast.starts_now
        or recent is None
        or not choice.prefers_recent_waits(forecast.features.pool)
    ):
        return forecast
    return replace(forecast, start_us=recent.later(forecast.made_us), end_us=None, basis=ForecastBasis.RECENT_WAITS)
