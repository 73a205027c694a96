"""GraphQL API of forecasts: when a session starts and ends, and how accurate such forecasts were."""

from datetime import datetime

import strawberry
from strawberry.types import Info

from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.fields import root_field
from aliquot_schema.views.forecasts import ForecastAccuracyView


@strawberry.type(description="A forecast time as a range: in four of five cases the time is between `p10` and `p90`.")
class TimeBand:
    p10: datetime = strawberry.field(description="In one of ten cases the time is earlier.")
    p50: datetime = strawberry.field(description="In half of the cases the time is earlier.")
    p90: datetime = strawberry.field(description="In one of ten cases the time is later.")


@strawberry.type(description="When a session starts and ends, as it was forecast at one moment.")
class StartForecast:
    made_at: datetime = strawberry.field(description="When it was made.")
    age: float = strawberry.field(description="Seconds since then.")
    starts_now: bool = strawberry.field(
        description="Whether the next scheduling pass starts it, as the scheduler decides in the present state."
    )
    start: TimeBand | None = strawberry.field(description="When devices are granted; null = unknown, see `unknown`.")
    end: TimeBand | None = strawberry.field(description="When it ends; null = unknown.")
    within_hour: float | None = strawberry.field(
        description="Probability to start within an hour of `made_at`, 0 to 1; null = unknown."
    )
    runs_known: int = strawberry.field(description="Ended sessions of its owner that the forecast is based on.")
    unknown: str | None = strawberry.field(description="Why the start is unknown; null = it is known.")
    basis: str = strawberry.field(
        description="`simulation` of the queue, or `recent waits` of sessions of its size, while these are clearly "
        "more accurate."
    )


@strawberry.type(description="The forecasts of a session: the newest one, and the one at submission.")
class Forecast:
    now: StartForecast | None = strawberry.field(
        description="The newest forecast; null if the session does not wait, or none has been made."
    )
    at_submission: StartForecast | None = strawberry.field(
        description="The first forecast, made when it began to wait; null if it started before one was made."
    )
    came_true: bool | None = strawberry.field(
        description="Whether it started inside the band of that forecast; null = not known yet, or there was no band."
    )
    alike: int | None = strawberry.field(
        description="Number of judged forecasts with a similar wait for a session of its size; null = fewer than 50."
    )
    alike_inside: float | None = strawberry.field(
        description="Part of these that started inside the band, 0 to 1; null = fewer than 50."
    )
    missing: str | None = strawberry.field(
        description="Why there is no newest forecast, or why it is not renewed; null = forecasts are being made."
    )


@strawberry.type(description="How accurate the forecasts of one group were. Forecasts of `now` are left out.")
class ForecastGroup:
    group: str = strawberry.field(
        description="`all`; `size: single`, `gang` or `wide`; `new user`; `queue: ...`, `told: ...` P50, "
        "`policy: ...` version; a size with a told P50; or `told again after ...`."
    )
    count: int = strawberry.field(description="Number of judged forecasts.")
    days: int = strawberry.field(description="Days on which they were made; errors of one day are similar.")
    inside: float = strawberry.field(description="Part that started inside the band; the target is 0.8.")
    inside_low: float = strawberry.field(description="Lower end of the 80 % interval of `inside`, by days.")
    inside_high: float = strawberry.field(description="Upper end of that interval.")
    below: float = strawberry.field(description="Part that started before the band.")
    above: float = strawberry.field(description="Part that started after the band.")
    within_1_min: float = strawberry.field(description="Part that started within a minute of P50.")
    within_10_min: float = strawberry.field(description="Part that started within ten minutes of P50.")
    within_factor_2: float = strawberry.field(
        description="Part that waited half to twice as long as P50 said, with five minutes added to both."
    )
    error: float = strawberry.field(description="Mean quantile loss of P10, P50 and P90, in seconds.")
    error_of_average: float | None = strawberry.field(
        description="The same for a moving average of the waits of sessions of that size; null = there was none."
    )


@strawberry.type(description="How accurate the forecasts of the last 90 days were.")
class ForecastAccuracy:
    groups: list[ForecastGroup] = strawberry.field(
        description="By group; the group `all` is first. Empty = no forecast is judged yet."
    )
    waited: int = strawberry.field(description="Forecasts of a wait whose outcome is known.")
    unknown: int = strawberry.field(description="Sessions whose start could not be forecast.")
    unknown_part: float | None = strawberry.field(description="Part of all forecasts; null = there was none.")
    started_now: int = strawberry.field(description="Forecasts that said `now`.")
    now_true: int = strawberry.field(description="Of these, how many started within a minute.")
    at_once: int = strawberry.field(
        description="Sessions that the first pass after their submission started, before any forecast."
    )
    censored: int = strawberry.field(
        description="Sessions that left the queue before the end of their band; they are not judged."
    )
    runs: int = strawberry.field(description="Ended sessions that forecasts are based on.")
    since: datetime | None = strawberry.field(description="The oldest forecast that is counted; null = there is none.")
    made_at: datetime | None = strawberry.field(
        description="When the forecasts of the whole queue were made last; null = never."
    )
    missing: str | None = strawberry.field(description="Why no forecasts are being made now; null = they are.")


@strawberry.type
class ForecastQueries:
    @root_field(ForecastAccuracy, "How accurate forecasts of starts were, by group.")
    async def forecast_accuracy(self, info: Info[Context, None]) -> ForecastAccuracyView:
        return info.context.services.queries.forecast_accuracy(info.context.caller)
