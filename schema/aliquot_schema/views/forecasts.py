"""Read models of forecasts: when a session starts and ends, and how accurate such forecasts were."""

from datetime import datetime

from msgspec import Struct


class TimeBandView(Struct, frozen=True, kw_only=True):
    """A time that is not certain: four of five come true between `p10` and `p90`."""

    p10: datetime
    p50: datetime
    p90: datetime


class StartForecastView(Struct, frozen=True, kw_only=True):
    """When a session starts and ends, as it was forecast at one moment."""

    made_at: datetime
    age: float
    """Seconds since then."""
    starts_now: bool
    """Whether the next scheduling pass starts it: a fact, not a probability."""
    start: TimeBandView | None
    """None = unknown, see `unknown`."""
    end: TimeBandView | None
    within_hour: float | None
    """Probability to start within an hour of `made_at`, 0 to 1."""
    runs_known: int
    """Ended sessions of its owner that it is based on."""
    unknown: str | None
    """Why the start is unknown."""
    basis: str
    """`simulation` or `recent waits`."""


class ForecastView(Struct, frozen=True, kw_only=True):
    """The forecasts of one session."""

    now: StartForecastView | None
    """The newest; None if it does not wait, or none has been made."""
    at_submission: StartForecastView | None
    """The first forecast, made when it began to wait."""
    came_true: bool | None
    """Whether it started inside the band forecast at submission; None = not known, or there was no band."""
    alike: int | None
    """Judged forecasts like the newest: as long a wait, for a session of its size; None = fewer than 50."""
    alike_inside: float | None
    """Part of these that started inside the band, 0 to 1."""
    missing: str | None
    """Why the newest forecast is missing, or grows old."""


class ForecastGroupView(Struct, frozen=True, kw_only=True):
    """How right the forecasts of one group were. Parts are 0 to 1, durations seconds."""

    group: str
    count: int
    days: int
    inside: float
    inside_low: float
    """80 % interval of `inside`, by days."""
    inside_high: float
    below: float
    above: float
    within_1_min: float
    within_10_min: float
    within_factor_2: float
    error: float
    """Mean quantile loss of P10, P50 and P90."""
    error_of_average: float | None
    """The same for a moving average of waits."""


class ForecastAccuracyView(Struct, frozen=True, kw_only=True):
    """How right the forecasts of the last 90 days were."""

    groups: tuple[ForecastGroupView, ...]
    """All of them first; empty before the first judged forecast."""
    waited: int
    """Forecasts that said to wait, and whose outcome is known."""
    unknown: int
    """Sessions that were told that their start is unknown."""
    unknown_part: float | None
    """Part of all told forecasts."""
    started_now: int
    """Forecasts that said `now`."""
    now_true: int
    """Of these, how many came true within a minute."""
    at_once: int
    """Sessions that started in the first pass after their submission, before any forecast."""
    censored: int
    """Sessions that left the queue before the end of their band; they are not judged."""
    runs: int
    """Ended sessions that forecasts are based on."""
    since: datetime | None
    """The oldest forecast that is counted."""
    made_at: datetime | None
    """When the forecasts of the whole queue were made last."""
    missing: str | None
    """Why no forecasts are being made now; None = they are."""
