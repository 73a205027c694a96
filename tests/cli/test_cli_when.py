"""`aliquot when`: one sentence for every state of a forecast."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aliquot.cli.session.when import accuracy_lines, forecast_sentence
from aliquot.client.generated.enums import SessionState
from aliquot.client.generated.forecasts import Forecast, ForecastAccuracy, ForecastGroup, StartForecast, TimeBand
from aliquot.client.generated.sessions import Session
from cli_tables import filled

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


def band(*minutes: int) -> TimeBand:
    p10, p50, p90 = (NOW + timedelta(minutes=minute) for minute in minutes)
    return TimeBand(p10=p10, p50=p50, p90=p90)


def start(**fields: Any) -> StartForecast:
    return filled(StartForecast, **{"made_at": NOW, "basis": "simulation", "age": 40.0, **fields})


def sentence(forecast: Forecast | None, **session: Any) -> str:
    known = {"queue_position": 1, "state": SessionState.QUEUED, "forecast": forecast, **session}
    return forecast_sentence(filled(Session, **known), now=NOW)


def test_a_forecast_shows_start_end_probability_and_past_accuracy() -> None:
    now = start(start=band(25, 60, 160), end=band(90, 130, 400), within_hour=0.5)
    forecast = filled(Forecast, now=now, alike=214, alike_inside=0.81)
    assert sentence(forecast) == (
        "starts about 13:00, between 12:25 and 14:40; ends about 14:10; "
        "starts within an hour with a probability of 50 %; of 214 like this, 81 % started inside the band"
    )


def test_forecast_times_on_another_day_show_the_date() -> None:
    forecast = filled(Forecast, now=start(start=band(600, 900, 2000)))
    assert sentence(forecast) == "starts about Mar 03 03:00, between 22:00 and Mar 03 21:20"


@pytest.mark.parametrize(
    ("forecast", "expected"),
    [
        (None, "no forecast: none was made yet"),
        (filled(Forecast, missing="it is held"), "no forecast: it is held"),
        (filled(Forecast, now=start(starts_now=True)), "starts now: the next scheduling pass gives it devices"),
        (filled(Forecast, now=start(unknown="too little history")), "its start cannot be forecast: too little history"),
        (filled(Forecast, now=start(start=TimeBand(p10=NOW, p50=NOW, p90=NOW + timedelta(seconds=20)))),
         "starts within a minute"),
        (filled(Forecast, now=start(start=band(0, 20, 40), basis="recent waits")),
         "starts about 12:20, between now and 12:40; from recent waits, because the simulation was clearly less "
         "accurate lately"),
        (filled(Forecast, now=start(start=band(10, 20, 40)), missing="the forecast process is starting"),
         "starts about 12:20, between 12:10 and 12:40; as of 40s ago, because the forecast process is starting"),
    ],
)  # fmt: skip
def test_missing_and_uncertain_forecasts_are_explained(forecast: Forecast | None, expected: str) -> None:
    assert sentence(forecast) == expected


def test_a_started_session_shows_its_forecast_at_submission() -> None:
    first = start(start=band(25, 60, 160))
    forecast = filled(Forecast, at_submission=first, came_true=True)
    gone = {"queue_position": None, "state": SessionState.RUNNING, "scheduled_at": NOW + timedelta(minutes=58)}
    assert sentence(forecast, **gone) == (
        "started 12:58; the forecast at submission: starts about 13:00, between 12:25 and 14:40"
    )
    assert sentence(None, **gone) == "started 12:58; no time was forecast at submission"
    gone = {"queue_position": None, "state": SessionState.CANCELED, "scheduled_at": None}
    assert sentence(None, **gone) == "not waiting: canceled"


def test_forecast_accuracy_shows_unjudged_forecasts() -> None:
    group = filled(ForecastGroup, group="all", count=214, inside=0.81, inside_low=0.77, inside_high=0.85, error=600.0)
    found = filled(ForecastAccuracy, groups=(group,), unknown=12, unknown_part=0.05, at_once=900, censored=3, runs=4000)
    lines = accuracy_lines(found)
    assert lines[1].split("\t")[:4] == ["all", "214", "81 %", "77 % to 85 %"]
    assert lines[2] == "unknown: 12 (5 %); left the queue before they could be judged: 3"
    assert lines[3].endswith("started before any forecast: 900")
    empty = accuracy_lines(filled(ForecastAccuracy, missing="the forecast process is starting"))
    assert empty[:2] == [
        "no forecasts are being made now: the forecast process is starting",
        "no forecast has been judged yet",
    ]
