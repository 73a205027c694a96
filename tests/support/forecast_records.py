"""Builders of forecasts and their records."""

from typing import Any, Final

from aliquot.core.foresight.bands import Band
from aliquot.core.foresight.forecast import Features, Forecast
from aliquot.core.foresight.shown_forecasts import ForecastOutcome, ForecastRecord, PackedRecord, ShownForecast
from aliquot_schema.ids import PoolId, SessionId

MINUTE_US: Final = 60_000_000
HOUR_US: Final = 60 * MINUTE_US
FEATURES: Final = Features(
    pool=PoolId("default"),
    size="single",
    is_new_user=False,
    queue="<10",
    told="10 min-2 h",
    policy_version=1,
    milli=1000,
)


def forecast(session_id: str, made_us: int, minutes: tuple[int, int, int] | None, **more: Any) -> Forecast:
    """A forecast with a band of minutes from now; None = unknown start."""
    band = None if minutes is None else Band(*(made_us + minute * MINUTE_US for minute in minutes))
    fields: dict[str, Any] = {
        "starts_now": False,
        "start_us": band,
        "end_us": None if band is None else band.later(HOUR_US),
        "raw_start_us": band or Band(made_us, made_us, made_us),
        "raw_end_us": Band(made_us, made_us, made_us) if band is None else band.later(HOUR_US),
        "within_hour": None if band is None else 0.5,
        "raw_within_hour": 0.5,
        "unknown": "3 sessions have ended so far; forecasts need 50" if band is None else None,
        "runs_known": 60,
        "features": FEATURES,
    }
    return Forecast(session_id=SessionId(session_id), made_us=made_us, revision=7, **{**fields, **more})


def shown_forecast(session_id: str, made_us: int, minutes: tuple[int, int, int] | None, **more: Any) -> ShownForecast:
    """The same as shown, from the simulation."""
    made = forecast(session_id, made_us, minutes, **more)
    return ShownForecast(forecast=made, simulated_us=made.start_us, average_us=20 * MINUTE_US)


def record(
    session_id: str,
    made_us: int,
    minutes: tuple[int, int, int] | None = (10, 30, 90),
    *,
    outcome: ForecastOutcome = ForecastOutcome.WAITING,
    settled_us: int | None = None,
    ended_us: int | None = None,
    age_s: int = 0,
    **more: Any,
) -> ForecastRecord:
    """A record of such a forecast."""
    return ForecastRecord(
        session_id=SessionId(session_id),
        age_s=age_s,
        shown=shown_forecast(session_id, made_us, minutes, **more),
        outcome=outcome,
        settled_us=settled_us,
        ended_us=ended_us,
    )


def packed_record(*args: Any, **more: Any) -> PackedRecord:
    """The same with its forecast encoded, as servers keep it."""
    return PackedRecord.of(record(*args, **more))
