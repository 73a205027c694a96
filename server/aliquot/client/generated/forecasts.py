"""Forecasts.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from datetime import datetime

from msgspec import Struct


class TimeBand(Struct, frozen=True, kw_only=True):
    """A forecast time as a range: in four of five cases the time is between `p10` and `p90`."""

    p10: datetime
    """In one of ten cases the time is earlier."""
    p50: datetime
    """In half of the cases the time is earlier."""
    p90: datetime
    """In one of ten cases the time is later."""


class StartForecast(Struct, frozen=True, kw_only=True):
    """When a session starts and ends, as it was forecast at one moment."""

    made_at: datetime
    """When it was made."""
    age: float
    """Seconds since then."""
    starts_now: bool
    """Whether the next scheduling pass starts it, as the scheduler decides in the present state."""
    start: TimeBand | None
    """When devices are granted; null = unknown, see `unknown`."""
    end: TimeBand | None
    """When it ends; null = unknown."""
    within_hour: float | None
    """Probability to start within an hour of `made_at`, 0 to 1; null = unknown."""
    runs_known: int
    """Ended sessions of its owner that the forecast is based on."""
    unknown: str | None
    """Why the start is unknown; null = it is known."""
    basis: str
    """`simulation` of the queue, or `recent waits` of sessions of its size, while these are clearly more accurate."""


class Forecast(Struct, frozen=True, kw_only=True):
    """The forecasts of a session: the newest one, and the one at submission."""

    now: StartForecast | None
    """The newest forecast; null if the session does not wait, or none has been made."""
    at_submission: StartForecast | None
    """The first forecast, made when it began to wait; null if it started before one was made."""
    came_true: bool | None
    """Whether it started inside the band of that forecast; null = not known yet, or there was no band."""
    alike: int | None
    """Number of judged forecasts with a similar wait for a session of its size; null = fewer than 50."""
    alike_inside: float | None
    """Part of these that started inside the band, 0 to 1; null = fewer than 50."""
    missing: str | None
    """Why there is no newest forecast, or why it is not renewed; null = forecasts are being made."""


class ForecastGroup(Struct, frozen=True, kw_only=True):
    """How accurate the forecasts of one group were. Forecasts of `now` are left out."""

    group: str
    """
    `all`; `size: single`, `gang` or `wide`; `new user`; `queue: ...`, `told: ...` P50, `policy: ...` version; a size
    with a told P50; or `told again after ...`.
    """
    count: int
    """Number of judged forecasts."""
    days: int
    """Days on which they were made; errors of one day are similar."""
    inside: float
    """Part that started inside the band; the target is 0.8."""
    inside_low: float
    """Lower end of the 80 % interval of `inside`, by days."""
    inside_high: float
    """Upper end of that interval."""
    below: float
    """Part that started before the band."""
    above: float
    """Part that started after the band."""
    within_1_min: float
    """Part that started within a minute of P50."""
    within_10_min: float
    """Part that started within ten minutes of P50."""
    within_factor_2: float
    """Part that waited half to twice as long as P50 said, with five minutes added to both."""
    error: float
    """Mean quantile loss of P10, P50 and P90, in seconds."""
    error_of_average: float | None
    """The same for a moving average of the waits of sessions of that size; null = there was none."""


class ForecastAccuracy(Struct, frozen=True, kw_only=True):
    """How accurate the forecasts of the last 90 days were."""

    groups: tuple[ForecastGroup, ...]
    """By group; the group `all` is first. Empty = no forecast is judged yet."""
    waited: int
    """Forecasts of a wait whose outcome is known."""
    unknown: int
    """Sessions whose start could not be forecast."""
    unknown_part: float | None
    """Part of all forecasts; null = there was none."""
    started_now: int
    """Forecasts that said `now`."""
    now_true: int
    """Of these, how many started within a minute."""
    at_once: int
    """Sessions that the first pass after their submission started, before any forecast."""
    censored: int
    """Sessions that left the queue before the end of their band; they are not judged."""
    runs: int
    """Ended sessions that forecasts are based on."""
    since: datetime | None
    """The oldest forecast that is counted; null = there is none."""
    made_at: datetime | None
    """When the forecasts of the whole queue were made last; null = never."""
    missing: str | None
    """Why no forecasts are being made now; null = they are."""
