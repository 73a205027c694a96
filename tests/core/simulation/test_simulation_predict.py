"""The predictor: its inputs and its explanations."""

import pytest
from msgspec.structs import replace

from aliquot.core.prediction import (
    RUNS_MAX,
    RUNS_MIN,
    Predictor,
    RunTimes,
    WaitingWorkloads,
    Workload,
    duration_text,
)
from aliquot_schema.ids import UserId

HOUR_MS = 3_600_000
TRAIN = Workload(user=UserId("ann"), program="train.py", milli=4000, limit_ms=8 * HOUR_MS)


def learned(*runs: tuple[Workload, int]) -> Predictor:
    predictor = Predictor()
    for workload, duration_ms in runs:
        predictor.learn(workload, duration_ms=duration_ms)
    return predictor


def times(run: Workload, *, runs: int = RUNS_MIN, hours: float = 2) -> list[tuple[Workload, int]]:
    return [(run, int(hours * HOUR_MS))] * runs


def test_no_prediction_is_made_before_three_similar_runs_have_ended() -> None:
    assert RUNS_MIN == 3
    assert Predictor().predict(TRAIN) is None
    assert learned(*times(TRAIN, runs=2)).predict(TRAIN) is None
    assert learned(*times(TRAIN, runs=3)).predict(TRAIN) is not None


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (TRAIN, "mean of ann's last 3 runs of train.py on 4 GPUs: 2 h"),
        (replace(TRAIN, program="eval.py"), "mean of ann's last 3 runs on 4 GPUs with a limit of 8 h: 2 h"),
        (replace(TRAIN, program=None, limit_ms=None), "mean of ann's last 3 runs on 4 GPUs: 2 h"),
        (replace(TRAIN, milli=1000), "mean of ann's last 3 runs on GPUs: 2 h"),
        (replace(TRAIN, user=UserId("bob")), "mean of the last 3 runs of all users on 4 GPUs: 2 h"),
        (replace(TRAIN, user=UserId("bob"), milli=500), "mean of the last 3 runs of all users on GPUs: 2 h"),
    ],
)
def test_a_prediction_uses_the_most_similar_runs(run: Workload, sentence: str) -> None:
    others = times(replace(run, user=UserId("cy"), program=None, milli=9000, limit_ms=None), hours=0.1)
    predictor = learned(*([] if "all users on GPUs" in sentence else others), *times(run))
    prediction = predictor.predict(TRAIN)
    assert prediction is not None
    assert prediction.sentence() == sentence
    assert prediction.run_times == (2 * HOUR_MS, 2 * HOUR_MS)


@pytest.mark.parametrize(("ran", "asked"), [(0, 4000), (4000, 0), (0, 200), (200, 0)])
def test_runs_without_a_gpu_and_runs_with_one_never_predict_each_other(ran: int, asked: int) -> None:
    runs = times(replace(TRAIN, milli=ran), runs=20, hours=0.01)
    assert learned(*runs).predict(replace(TRAIN, milli=asked)) is None
    assert learned(*runs).predict(replace(TRAIN, milli=asked, user=UserId("bob"))) is None


def test_a_prediction_is_the_mean_of_the_last_twenty_runs_and_reservations_use_the_median() -> None:
    old = [(TRAIN, 100 * HOUR_MS)] * 30
    new = [(TRAIN, (index + 1) * 60_000) for index in range(RUNS_MAX - 1)]
    prediction = learned(*old, *new, (TRAIN, 7 * HOUR_MS)).predict(TRAIN)
    assert prediction is not None
    assert prediction.estimate_ms == (190 * 60_000 + 7 * HOUR_MS) // 20
    assert prediction.median_ms == 630_000
    assert prediction.sentence() == "mean of ann's last 20 runs of train.py on 4 GPUs: 30 min 30 s"


def test_a_prediction_is_at_least_a_minute() -> None:
    prediction = learned(*[(TRAIN, 20)] * 4).predict(TRAIN)
    assert prediction is not None
    assert prediction.run_times == (60_000, 60_000)
    short = replace(TRAIN, limit_ms=30_000)
    limited = learned(*[(short, 20)] * 4).predict(short)
    assert limited is not None
    assert limited.run_times == (30_000, 30_000)


def test_a_prediction_is_cut_at_the_time_limit_and_says_so() -> None:
    prediction = learned(*times(replace(TRAIN, limit_ms=None), hours=9)).predict(TRAIN)
    assert prediction is not None
    assert (prediction.estimate_ms, prediction.median_ms, prediction.is_limited) == (8 * HOUR_MS, 8 * HOUR_MS, True)
    assert prediction.sentence().endswith("8 h, the time limit")


def test_waiting_workloads_are_predicted_again_when_a_similar_run_ends() -> None:
    waiting = WaitingWorkloads(Predictor())
    other = replace(TRAIN, program="eval.py")
    waiting.join(TRAIN)
    waiting.join(TRAIN)
    waiting.join(other)
    assert waiting.run_times() == {}
    for _ in range(3):
        waiting.learn(replace(TRAIN, program="prep.py"), duration_ms=HOUR_MS)
    by_limit = RunTimes(HOUR_MS, HOUR_MS)
    first = waiting.run_times()
    assert first == {TRAIN: by_limit, other: by_limit}
    for _ in range(3):
        waiting.learn(TRAIN, duration_ms=2 * HOUR_MS)
    assert waiting.run_times()[TRAIN] == (2 * HOUR_MS, 2 * HOUR_MS)
    assert waiting.run_times()[other] == (3 * HOUR_MS // 2, 3 * HOUR_MS // 2)
    assert first == {TRAIN: by_limit, other: by_limit}
    same = waiting.run_times()
    waiting.learn(replace(TRAIN, user=UserId("bob"), milli=0), duration_ms=5)
    assert waiting.run_times() is same
    waiting.leave(TRAIN)
    assert TRAIN in waiting.run_times()
    waiting.leave(TRAIN)
    assert waiting.run_times() == {other: (3 * HOUR_MS // 2, 3 * HOUR_MS // 2)}


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
def test_durations_are_written_in_two_units(duration_ms: int, text: str) -> None:
    assert duration_text(duration_ms) == text
