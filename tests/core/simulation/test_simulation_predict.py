"""The predictor: what it goes by, and how it says so."""

from dataclasses import replace

import pytest

from aliquot.core.prediction import RUNS_MAX, Predictor, Workload, duration_text
from aliquot_schema.ids import UserId

HOUR_MS = 3_600_000
TRAIN = Workload(user=UserId("ann"), program="train.py", milli=4000, limit_ms=8 * HOUR_MS)


def learned(*runs: tuple[Workload, int]) -> Predictor:
    predictor = Predictor()
    for workload, duration_ms in runs:
        predictor.learn(workload, duration_ms=duration_ms)
    return predictor


def test_nothing_is_known_before_anything_ran() -> None:
    assert Predictor().predict(TRAIN) is None


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (TRAIN, "your last run of train.py on 4 GPUs: 2 h"),
        (replace(TRAIN, program="eval.py"), "your last run on 4 GPUs with a limit of 8 h: 2 h"),
        (replace(TRAIN, program=None, limit_ms=None), "your last run on 4 GPUs: 2 h"),
        (replace(TRAIN, milli=1000), "your last run: 2 h"),
        (replace(TRAIN, user=UserId("bob")), "the last run of all users on 4 GPUs: 2 h"),
        (replace(TRAIN, user=UserId("bob"), milli=500), "the last run of all users: 2 h"),
    ],
)
def test_it_goes_by_the_run_that_is_most_alike(run: Workload, sentence: str) -> None:
    others = [(replace(run, user=UserId("cy"), program=None, milli=9000, limit_ms=None), 5)] * 2
    predictor = learned(*([] if "all users: 2" in sentence else others), (run, 2 * HOUR_MS))
    prediction = predictor.predict(TRAIN)
    assert prediction is not None
    assert prediction.sentence() == sentence
    assert prediction.estimate_ms == 2 * HOUR_MS


def test_it_is_the_median_of_the_last_twenty() -> None:
    old = [(TRAIN, 100 * HOUR_MS)] * 30
    new = [(TRAIN, (index + 1) * 60_000) for index in range(RUNS_MAX)]
    prediction = learned(*old, *new).predict(TRAIN)
    assert prediction is not None
    assert prediction.estimate_ms == 630_000
    assert prediction.sentence() == "median of your last 20 runs of train.py on 4 GPUs: 10 min 30 s"


def test_it_never_exceeds_the_limit_and_says_so() -> None:
    prediction = learned((replace(TRAIN, limit_ms=None), 9 * HOUR_MS)).predict(TRAIN)
    assert prediction is not None
    assert (prediction.estimate_ms, prediction.is_limited) == (8 * HOUR_MS, True)
    assert prediction.sentence().endswith("8 h, the time limit")


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "less than a second"),
        (12_999, "12 s"),
        (300_000, "5 min"),
        (7_800_000, "2 h 10 min"),
        (3 * 86_400_000 + 5_000, "3 d"),
        (100_000 * 1000, "1 d 3 h"),
    ],
)
def test_durations_are_said_in_two_units(duration_ms: int, text: str) -> None:
    assert duration_text(duration_ms) == text
