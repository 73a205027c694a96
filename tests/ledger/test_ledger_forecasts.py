"""What a pass was told to expect of sessions, made again."""

from dataclasses import replace

import pytest

from aliquot.service.ledger.replay import PublishedForecasts
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState
from store_records import session

ESTIMATE_MS = 5000


@pytest.fixture
def waiting() -> Session:
    return session()


def test_what_ended_and_waits_again_by_the_next_pass_is_expected_as_it_was_told(waiting: Session) -> None:
    forecasts = PublishedForecasts()
    forecasts.estimates_ms[waiting.id] = ESTIMATE_MS
    assert forecasts.predict(waiting) is not None
    forecasts.learn(replace(waiting, state=SessionState.FAILED, ended_us=2))
    assert forecasts.of(waiting.id) is None
    forecasts.predict(waiting)
    again = forecasts.of(waiting.id)
    assert again is not None
    assert again.estimate_ms == ESTIMATE_MS


def test_nothing_is_expected_of_what_nothing_was_told_of(waiting: Session) -> None:
    forecasts = PublishedForecasts()
    assert forecasts.predict(waiting) is None
    assert forecasts.of(waiting.id) is None
