"""Scores of forecasts: corrected in order by outcomes known at that time, and compared with simpler ones."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from forecast_logs import Told

from aliquot.core.foresight.accuracy import GroupAccuracy, ResolvedForecast, by_group, pinball_us
from aliquot.core.foresight.bands import Band, Corrections
from aliquot.core.foresight.forecast import HOUR_US, Forecast, corrected

AT_ONCE: Final = "forecast_at_once"
UNKNOWN: Final = "forecast_unknown"
STRATUM_MIN: Final = 200
"""Smaller groups are not judged."""
SECOND_US: Final = 1_000_000
OVERDUE, STARTED, ENDED = range(3)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A forecast as shown, with its truth."""

    told: Told
    forecast: Forecast

    @property
    def wait_us(self) -> int:
        """The true wait."""
        return self.told.started_us - self.forecast.made_us

    @property
    def band(self) -> Band:
        """The wait's band, as shown."""
        assert self.forecast.start_us is not None
        return self.forecast.start_us.later(-self.forecast.made_us)

    @property
    def resolved(self) -> ResolvedForecast:
        """Input of the accuracy counts."""
        return ResolvedForecast(
            made_us=self.forecast.made_us, features=self.forecast.features, shown=self.band, wait_us=self.wait_us
        )


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The scores of one log under one policy."""

    figures: dict[str, float]
    """By key, without the name of the log."""
    groups: tuple[GroupAccuracy, ...]
    """Of the forecasts with a wait; all of them first."""
    shown: tuple[Shown, ...]


def shown(made: Sequence[Told]) -> list[Shown]:
    """The forecasts with the corrections from outcomes known by then, in order of time."""
    corrections = Corrections.new()
    outcomes: list[tuple[int, int, int]] = []
    found: list[Shown] = []
    for number, one in enumerate(made):
        while outcomes and outcomes[0][0] < one.forecast.made_us:
            at_us, kind, of = heappop(outcomes)
            _send_learned(corrections, found[of], kind, at_us=at_us)
        found.append(Shown(told=one, forecast=corrected(one.forecast, corrections)))
        for at_us, kind in _outcomes(found[-1]):
            heappush(outcomes, (at_us, kind, number))
    return found


def _outcomes(one: Shown) -> Iterator[tuple[int, int]]:
    start, end = one.forecast.start_us, one.forecast.end_us
    if start is not None and not one.forecast.starts_now:
        yield one.told.started_us, STARTED
        if one.told.started_us > start.p90 + SECOND_US:
            yield start.p90 + SECOND_US, OVERDUE
    if end is not None:
        yield one.told.ended_us, ENDED


def _send_learned(corrections: Corrections, one: Shown, kind: int, *, at_us: int) -> None:
    forecast = one.forecast
    pool, made_us = forecast.features.pool, forecast.made_us
    if kind == OVERDUE:
        corrections.starts.overdue(pool=pool, at_us=at_us)
    elif kind == STARTED:
        was_overdue = one.wait_us > one.band.p90 + SECOND_US
        corrections.starts.resolved(one.wait_us, one.band, pool=pool, at_us=at_us, was_overdue=was_overdue)
        corrections.within_hour.learn(forecast.raw_within_hour, started=one.wait_us <= HOUR_US)
    elif forecast.end_us is not None:
        end = forecast.end_us.later(-made_us)
        corrections.ends.resolved(at_us - made_us, end, pool=pool, at_us=at_us, was_overdue=False)


def scores(made: Sequence[Shown]) -> Scores:
    """The figures of forecasts; parts are of 1."""
    at_once = [one for one in made if one.forecast.starts_now]
    known = [one for one in made if one.forecast.start_us is not None]
    waiting = [one for one in known if not one.forecast.starts_now]
    groups = by_group(one.resolved for one in waiting)
    soon = [one for one in waiting if one.band.p50 < HOUR_US // 6]
    loss = _loss(known, lambda one: one.band)
    figures = {
        "forecast_cover_80": groups[0].inside,
        "forecast_cover_worst": min(
            (group.inside for group in groups if group.n >= STRATUM_MIN), default=groups[0].inside
        ),
        "forecast_now_true": _part(one.wait_us == 0 for one in at_once),
        "forecast_factor2": groups[0].within_factor_2,
        "forecast_soon_10min": _part(abs(one.wait_us - one.band.p50) <= HOUR_US // 6 for one in soon),
        "forecast_pinball_vs_ema": loss / _loss(known, lambda one: _point(one.told.average_us)),
        "forecast_pinball_vs_class": loss / _loss(known, lambda one: _point(one.told.class_average_us)),
        AT_ONCE: len(at_once) / len(made),
        UNKNOWN: 1 - len(known) / len(made),
    }
    if all(one.told.by_limits_us is not None for one in known):
        figures["forecast_pinball_vs_limits"] = loss / _loss(known, lambda one: _point(one.told.by_limits_us or 0))
    return Scores(figures=figures, groups=tuple(groups), shown=tuple(made))


def _part(found: Iterable[bool]) -> float:
    values = list(found)
    return sum(values) / len(values) if values else 1.0


def _loss(made: Sequence[Shown], band: Callable[[Shown], Band]) -> float:
    return sum(pinball_us(band(one), one.wait_us) for one in made) / len(made)


def _point(wait_us: int) -> Band:
    return Band(wait_us, wait_us, wait_us)
