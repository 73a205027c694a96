"""A pass's forecasts of sessions, recomputed in replay."""

import pytest
from msgspec.structs import replace

from aliquot.core.prediction import RunTimes
from aliquot.service.ledger.entries import Inputs
from aliquot.service.ledger.replay import PublishedForecasts
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState
from store_records import session

ESTIMATE_MS, MEDIAN_MS = 5000, 4000


@pytest.fixture
def waiting() -> Session:
    return session()


def test_a_session_queued_again_before_the_next_pass_keeps_its_forecast(waiting: Session) -> None:
    forecasts = PublishedForecasts()
    forecasts.publish(Inputs(estimates=((waiting.id, ESTIMATE_MS),), medians=((waiting.id, MEDIAN_MS),)))
    forecasts.start(waiting)
    forecasts.learn(replace(waiting, state=SessionState.FAILED, ended_us=2))
    assert forecasts.of(waiting.id) is None
    forecasts.start(waiting)
    again = forecasts.of(waiting.id)
    assert again is not None
    assert again.run_times == (ESTIMATE_MS, MEDIAN_MS)


def test_a_session_without_published_estimates_has_no_forecast(waiting: Session) -> None:
    forecasts = PublishedForecasts()
    forecasts.start(waiting)
    assert forecasts.wait(waiting) is None
    assert forecasts.of(waiting.id) is None


def test_a_workload_forecast_is_kept_until_a_new_one_is_published(waiting: Session) -> None:
    forecasts = PublishedForecasts()
    forecasts.publish(Inputs(workloads=((waiting.id, 4),), run_times=((4, RunTimes(7, 5)), (9, RunTimes(1, 1)))))
    workload = forecasts.wait(waiting)
    assert workload is not None
    first = forecasts.run_times()
    assert first[workload] == (7, 5)
    forecasts.publish(Inputs(run_times=((4, RunTimes(8, 5)), (9, None))))
    assert forecasts.run_times() == {workload: (8, 5)}
    assert first[workload] == (7, 5)
