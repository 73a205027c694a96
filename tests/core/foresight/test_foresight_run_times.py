"""Run time history: sources of draws, and the fallbacks."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.foresight.run_times import (
    BACK_OFF_RUNS,
    RANKS,
    RECENT_RUNS,
    RUNS_OF_KEY_MAX,
    UNKNOWN_MS,
    EndedRun,
    RunHistory,
    size_class,
)
from aliquot.core.placement.scoreboard import split_mix_64
from aliquot.core.prediction import Workload
from aliquot_schema.ids import UserId
from core_effort import examples

HOUR_MS = 3_600_000
LAST = RANKS - 1
TRAIN = Workload(user=UserId("ann"), program="train.py", milli=4000, limit_ms=8 * HOUR_MS)
ranks = st.integers(0, LAST)


def learned(*runs: tuple[Workload, int]) -> RunHistory:
    history = RunHistory()
    for workload, duration_ms in runs:
        history.learn(EndedRun(workload=workload, duration_ms=duration_ms))
    return history


def drawn(history: RunHistory, workload: Workload = TRAIN, *, elapsed_ms: int = 0, count: int = 1000) -> Counter[int]:
    """Draws at independent ranks and choices."""
    candidates = history.candidates(workload, elapsed_ms=elapsed_ms)
    return Counter(candidates.at(split_mix_64(1, number), split_mix_64(2, number)) for number in range(count))


def test_without_history_run_times_are_one_to_four_times_a_default_or_the_elapsed_time() -> None:
    candidates = RunHistory().candidates(replace(TRAIN, limit_ms=None))
    assert (candidates.at(0, 0), candidates.at(LAST, 0)) == (UNKNOWN_MS, 4 * UNKNOWN_MS - 1)
    longer = RunHistory().candidates(replace(TRAIN, limit_ms=None), elapsed_ms=HOUR_MS)
    assert (longer.at(0, 0), longer.at(LAST, 0)) == (HOUR_MS + 1, 4 * HOUR_MS - 1)


def test_the_rank_selects_from_the_sorted_run_times() -> None:
    history = learned(*[(TRAIN, minutes * 60_000) for minutes in (30, 10, 20, 40)])
    candidates = history.candidates(TRAIN)
    assert [candidates.at(quarter * RANKS // 4, 0) // 60_000 for quarter in range(4)] == [10, 20, 30, 40]


def test_only_runs_longer_than_the_time_already_run_count() -> None:
    run = replace(TRAIN, limit_ms=None)
    history = learned(*[(run, minutes * 60_000) for minutes in (10, 20, 30, 40)])
    assert set(drawn(history, run, elapsed_ms=20 * 60_000)) == {30 * 60_000, 40 * 60_000}


def test_with_few_similar_runs_less_similar_runs_are_drawn_too() -> None:
    other = replace(TRAIN, program="eval.py", milli=1000, limit_ms=None)
    history = learned(*[(other, 2 * HOUR_MS)] * 50, *[(TRAIN, HOUR_MS)] * BACK_OFF_RUNS)
    counts = drawn(history)
    assert set(counts) == {HOUR_MS, 2 * HOUR_MS}
    # program, limit and size are each used every other time; of the user's 65 runs, the last eight are alike
    assert counts[2 * HOUR_MS] == pytest.approx(1000 / 8 * 65 / 80 * 0.6 * 50 / 65, abs=20)
    assert set(drawn(learned(*[(other, 2 * HOUR_MS)] * 50, *[(TRAIN, HOUR_MS)] * 64))) >= {HOUR_MS}


def test_recent_runs_are_drawn_two_times_of_five() -> None:
    history = learned(*[(TRAIN, HOUR_MS)] * (RUNS_OF_KEY_MAX - RECENT_RUNS), *[(TRAIN, 2 * HOUR_MS)] * RECENT_RUNS)
    assert drawn(history)[2 * HOUR_MS] == pytest.approx(400 + 600 * RECENT_RUNS / RUNS_OF_KEY_MAX, abs=50)
    rare = learned(*[(TRAIN, 2 * HOUR_MS)] * 400, *[(TRAIN, HOUR_MS)] * RECENT_RUNS)
    assert set(drawn(rare, elapsed_ms=90 * 60_000)) == {2 * HOUR_MS}


def test_runs_of_other_users_are_scaled_to_the_time_limit() -> None:
    history = learned(*[(replace(TRAIN, user=UserId("bob"), limit_ms=2 * HOUR_MS), HOUR_MS)] * 9)
    assert set(drawn(history)) == {4 * HOUR_MS}
    assert set(drawn(history, elapsed_ms=5 * HOUR_MS)) != {4 * HOUR_MS}
    unlimited = replace(TRAIN, limit_ms=None)
    assert HOUR_MS not in drawn(history, unlimited)


@pytest.mark.parametrize(("ran", "asked"), [(0, 4000), (4000, 0), (200, 0)])
def test_runs_with_and_without_a_gpu_do_not_predict_each_other(ran: int, asked: int) -> None:
    history = learned(*[(replace(TRAIN, milli=ran), HOUR_MS)] * 50)
    assert drawn(history, replace(TRAIN, milli=asked)) == drawn(RunHistory(), replace(TRAIN, milli=asked))


def test_old_runs_are_forgotten_per_kind() -> None:
    history = learned((TRAIN, HOUR_MS), *[(TRAIN, 2 * HOUR_MS)] * RUNS_OF_KEY_MAX)
    assert {value for level in history.candidates(TRAIN).levels[:6] for value in level.values} == {2 * HOUR_MS}
    assert history.finished(TRAIN.user) == history.total == RUNS_OF_KEY_MAX + 1
    assert history.finished(UserId("bob")) == 0


def test_the_run_history_predicts_as_the_scheduler_does() -> None:
    history = learned(*[(TRAIN, HOUR_MS), (TRAIN, HOUR_MS), (TRAIN, 4 * HOUR_MS)])
    assert history.predicted(TRAIN) == (2 * HOUR_MS, HOUR_MS)
    assert RunHistory().predicted(TRAIN) is None


def test_gpu_amounts_map_to_size_classes() -> None:
    assert [size_class(milli) for milli in (0, 200, 1000, 2000, 3000, 4000, 8000)] == [-1, 0, 1, 2, 2, 3, 4]


workloads = st.builds(
    Workload,
    user=st.sampled_from([UserId("ann"), UserId("bob")]),
    program=st.sampled_from([None, "train.py"]),
    milli=st.sampled_from([0, 500, 1000, 4000]),
    limit_ms=st.sampled_from([None, 1, 60_000, HOUR_MS]),
)


@given(
    runs=st.lists(st.tuples(workloads, st.integers(1, 10 * HOUR_MS)), max_size=30),
    workload=workloads,
    elapsed_ms=st.integers(0, 12 * HOUR_MS),
    one=ranks,
    other=ranks,
    choice=ranks,
)
@examples(200)
def test_drawn_run_times_exceed_the_elapsed_time_keep_the_limit_and_rise_with_the_rank(
    runs: list[tuple[Workload, int]], workload: Workload, elapsed_ms: int, one: int, other: int, choice: int
) -> None:
    candidates = learned(*runs).candidates(workload, elapsed_ms=elapsed_ms)
    low, high = (candidates.at(rank, choice) for rank in sorted((one, other)))
    assert elapsed_ms < low <= high
    if workload.limit_ms is not None:
        assert high <= max(workload.limit_ms, elapsed_ms + 1)
