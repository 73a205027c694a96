"""Forecasts: now, later and unknown; deterministic per snapshot; exact if the future is certain."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.fairshare import Usage
from aliquot.core.foresight.arrivals import ArrivalHistory
from aliquot.core.foresight.bands import BAND_MAX_US, Corrections
from aliquot.core.foresight.forecast import (
    DECIDED_ROWS,
    HOUR_US,
    RUNS_MIN,
    RUNS_OF_USER_MIN,
    Forecast,
    HypotheticalSession,
    corrected,
    forecast_all,
)
from aliquot.core.foresight.run_times import EndedRun, RunHistory
from aliquot.core.model.plan import KernelPlacement
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, RunningRow, Snapshot
from aliquot.core.prediction import Workload
from aliquot.core.scheduler.decide import decide
from aliquot.core.simulation.cluster import WHOLE, pool
from aliquot_schema.ids import AgentId, DeviceId, NodeId, SessionId, UserId
from aliquot_schema.intervals import Intervals
from aliquot_schema.policies import Backfill
from aliquot_schema.sessions import DEFAULT_POOL
from core_cluster import row
from core_effort import examples

HOUR_MS = HOUR_US // 1000
NOW_US = 1000 * 24 * HOUR_US
ANN = UserId("ann")
FCFS = Policy(placement="first_fit")


def workload(gpus: int = 1, user: UserId = ANN) -> Workload:
    return Workload(user=user, program=None, milli=gpus * 1000, limit_ms=None)


def learned(*hours: float, count: int = RUNS_MIN, gpus: int = 1) -> RunHistory:
    """`count` ended runs of ann, cycling over these run times."""
    runs = RunHistory()
    for number in range(count):
        runs.learn(EndedRun(workload=workload(gpus), duration_ms=int(hours[number % len(hours)] * HOUR_MS)))
    return runs


def waiting(name: str, *, gpus: int = 1, at: int = 0, user: UserId = ANN) -> PendingRow:
    return row(name, at=NOW_US - 100 + at, cuda_device=str(gpus), owner=user, workload=workload(gpus, user))


def on_one_gpu(*rows: PendingRow, revision: int = 7) -> Snapshot:
    return Snapshot(revision=revision, agents=pool(1), used={}, queue=rows)


def running_for(hours: float) -> Snapshot:
    """A one-GPU session that has run for some hours, and one that waits for it."""
    kernel = KernelPlacement(
        rank=0, agent_id=AgentId("pool"), node_id=NodeId("pool"), spec={WHOLE: {DeviceId("pool"): 1}}
    )
    state = on_one_gpu(waiting("waits"))
    runner = RunningRow.of(SessionId("runs"), [kernel], ends_us=NOW_US + HOUR_US, agents=state.agents)
    runner = replace(runner, owner=ANN, started_us=NOW_US - int(hours * HOUR_US))
    usage = Usage().held(1000, user=ANN, project=runner.project, now_us=runner.started_us or 0)
    return replace(state, running=(runner,), used={NodeId("pool"): {DeviceId("pool"): 1000}}, usage=usage)


def forecasts(
    state: Snapshot,
    runs: RunHistory,
    *,
    arrivals: ArrivalHistory | None = None,
    corrections: Corrections | None = None,
    policy: Policy = FCFS,
    wanted: Sequence[str] | None = None,
    first_rows: int | None = None,
) -> dict[SessionId, Forecast]:
    return forecast_all(
        state,
        policy,
        runs,
        arrivals or ArrivalHistory(),
        corrections or Corrections.new(),
        now_us=NOW_US,
        wanted=None if wanted is None else [SessionId(name) for name in wanted],
        first_rows=first_rows,
    )


def hours_of(found: Forecast) -> list[float]:
    """The uncorrected wait."""
    return [(at_us - NOW_US) / HOUR_US for at_us in found.raw_start_us]


def test_a_queue_of_certain_runs_is_forecast_to_the_microsecond() -> None:
    found = forecasts(on_one_gpu(*(waiting(f"s{number}", at=number) for number in range(4))), learned(1))
    assert [hours_of(one) for one in found.values()] == [[number] * 3 for number in range(4)]
    assert [one.starts_now for one in found.values()] == [True, False, False, False]
    assert [one.features.told for one in found.values()] == ["now", "10 min-2 h", "10 min-2 h", ">2 h"]
    assert [one.raw_within_hour for one in found.values()] == [1.0, 1.0, 0.0, 0.0]
    assert all(one.raw_end_us == one.raw_start_us.later(HOUR_US) for one in found.values())
    assert {one.unknown for one in found.values()} == {None}


def test_sessions_forecast_to_start_now_are_started_by_the_next_pass() -> None:
    state = on_one_gpu(waiting("wide", gpus=2), waiting("first", at=1), waiting("second", at=2))
    found = forecasts(state, learned(1))
    plan = decide(state, FCFS, now_us=NOW_US, seed=0)
    assert {name for name, one in found.items() if one.starts_now} == {one.session_id for one in plan.placements}
    assert all(set(one.start_us or ()) == {NOW_US} for one in found.values() if one.starts_now)


def test_a_forecast_takes_the_time_already_run_into_account() -> None:
    (found,) = forecasts(running_for(2.5), learned(1, 3, 5)).values()
    assert set(hours_of(found)) <= {0.5, 2.5}
    (late,) = forecasts(running_for(4), learned(1, 3, 5)).values()
    assert hours_of(late) == [1, 1, 1]


def test_a_resumed_session_is_forecast_with_the_work_that_is_left() -> None:
    """The running one kept two hours of work and has run for half an hour since; then the waiting one kept two."""
    state = running_for(0.5)
    (runner,) = state.running
    resumed = replace(state, running=(replace(runner, kept_ms=2 * HOUR_MS),))
    (found,) = forecasts(resumed, learned(1, 3, 5)).values()
    assert set(hours_of(found)) <= {0.5, 2.5}
    limited = replace(state, running=(replace(runner, kept_ms=2 * HOUR_MS, limit_us=NOW_US + HOUR_US),))
    (found,) = forecasts(limited, learned(9)).values()
    assert hours_of(found) == [1, 1, 1]
    first = replace(waiting("first"), kept_ms=2 * HOUR_MS)
    last = forecasts(on_one_gpu(first, waiting("last", at=1)), learned(1, 3))[SessionId("last")]
    assert hours_of(last) == [1, 1, 1]


def test_tasks_of_a_waiting_array_have_run_times_of_their_own() -> None:
    """As arriving and running tasks have: with probability 0.8 of the same rank, else of another."""
    array = replace(waiting("ses_a"), tasks=Intervals.of(range(20)), tasks_startable=20)
    last = forecasts(on_one_gpu(array, waiting("ses_last", at=1)), learned(1, 9))[SessionId("ses_last")]
    assert 20 < hours_of(last)[0] < hours_of(last)[2] < 9 * 20


def test_a_running_session_ends_by_its_present_time_limit() -> None:
    """It has run for two hours; its limit of one was extended, or its submission is unknown."""
    state, arrivals = running_for(2), ArrivalHistory()
    (runner,) = state.running
    started_us = runner.started_us or 0
    submitted = replace(workload(), limit_ms=HOUR_MS)
    arrivals.learn(replace(waiting("runs"), queued_us=started_us, workload=submitted, limit_ms=HOUR_MS))
    extended = replace(state, running=(replace(runner, limit_us=started_us + 6 * HOUR_US),))
    (found,) = forecasts(extended, learned(1, 3, 5, 9), arrivals=arrivals).values()
    assert set(hours_of(found)) <= {1, 3, 4}
    (alone,) = forecasts(extended, learned(9)).values()
    assert hours_of(alone) == [4, 4, 4]


def test_an_external_allocation_has_run_since_its_grant() -> None:
    state = running_for(2)
    held = replace(state.running[0], started_us=None, granted_us=NOW_US - 2 * HOUR_US)
    (found,) = forecasts(replace(state, running=(held,)), learned(1, 3)).values()
    assert hours_of(found) == [1, 1, 1]
    (found,) = forecasts(replace(state, running=(replace(held, limit_us=NOW_US + HOUR_US),)), learned(9)).values()
    assert hours_of(found) == [1, 1, 1]


def test_expected_later_submissions_that_go_first_delay_the_forecast() -> None:
    arrivals = ArrivalHistory()
    for day in range(30):
        at_us = NOW_US - (30 - day) * 24 * HOUR_US
        short = replace(waiting(f"old{day}"), queued_us=at_us + HOUR_US // 2, estimate_ms=60_000, workload=None)
        arrivals.learn(short)
        arrivals.ended(short.session_id, run_ms=6 * HOUR_MS)
    long = replace(waiting("waits"), estimate_ms=20 * HOUR_MS, workload=None)
    state = replace(running_for(0), queue=(long,))
    sjf = replace(FCFS, order="sjf", backfill=Backfill.NONE)
    (alone,) = forecasts(state, learned(1), policy=sjf).values()
    (overtaken,) = forecasts(state, learned(1), policy=sjf, arrivals=arrivals).values()
    assert hours_of(alone) == [1, 1, 1]
    assert hours_of(overtaken) == [7, 7, 7]


def test_a_forecast_is_the_same_for_the_same_snapshot_and_differs_for_another() -> None:
    rows = [waiting(f"s{number}", at=number) for number in range(6)]
    runs = learned(0.1, 0.5, 1, 2, 5)
    assert forecasts(on_one_gpu(*rows), runs) == forecasts(on_one_gpu(*rows), runs)
    raws = {
        forecasts(on_one_gpu(*rows, revision=revision), runs)[SessionId("s5")].raw_start_us for revision in range(5)
    }
    assert len(raws) == 5


def test_run_times_of_sessions_of_one_user_and_size_are_drawn_together() -> None:
    """The sum of ten independent waits of 1 or 3 h is rarely far from 20 h."""
    state = on_one_gpu(*(waiting(f"s{number:02}", at=number) for number in range(11)))
    p10, _, p90 = hours_of(forecasts(state, learned(1, 3))[SessionId("s10")])
    assert p10 < 15
    assert p90 > 25


@pytest.mark.parametrize(
    ("runs", "unknown"),
    [
        (learned(1, count=1), "1 session has ended so far; forecasts need 50"),
        (learned(1, count=RUNS_MIN - 1), "49 sessions have ended so far; forecasts need 50"),
        (learned(1), None),
    ],
)
def test_a_forecast_with_too_little_history_is_unknown(runs: RunHistory, unknown: str | None) -> None:
    (found,) = forecasts(running_for(0), runs).values()
    assert found.unknown == unknown
    assert (found.start_us is None) is (found.end_us is None) is (found.within_hour is None) is (unknown is not None)


def test_a_forecast_for_a_new_user_is_unknown_unless_the_session_starts_now() -> None:
    bob = UserId("bob")
    runs = learned(1)
    for _ in range(RUNS_OF_USER_MIN - 1):
        runs.learn(EndedRun(workload=workload(user=bob), duration_ms=HOUR_MS))
    state = on_one_gpu(waiting("now", user=bob), waiting("later", at=1, user=bob))
    now, later = forecasts(state, runs).values()
    assert (now.starts_now, now.unknown, now.end_us) == (True, None, None)
    assert now.start_us is not None
    assert later.unknown == "4 sessions of this user have ended so far; forecasts need 5"
    assert later.features.is_new_user
    assert later.raw_start_us.p50 == NOW_US + HOUR_US


def test_a_band_beyond_a_week_is_unknown() -> None:
    state = on_one_gpu(*(waiting(f"s{number}", at=number) for number in range(3)))
    found = forecasts(state, learned(100))[SessionId("s2")]
    assert found.unknown == "it may wait for more than 7 days"
    assert found.raw_start_us.p90 == NOW_US + BAND_MAX_US


def test_corrections_learned_from_outcomes_are_applied_to_forecasts() -> None:
    corrections = Corrections.new()
    for number in range(20):
        corrections.starts.overdue(pool=DEFAULT_POOL, at_us=number)
        corrections.within_hour.learn(1.0, started=False)
    raw = forecasts(running_for(0), learned(1))[SessionId("waits")]
    found = forecasts(running_for(0), learned(1), corrections=corrections)[SessionId("waits")]
    assert found == corrected(raw, corrections)
    assert found.raw_start_us == raw.raw_start_us
    assert found.start_us is not None
    assert raw.start_us is not None
    assert found.start_us.p90 > raw.start_us.p90
    assert (found.start_us.p10, found.start_us.p50) == (raw.start_us.p10, raw.start_us.p50)
    assert found.within_hour == pytest.approx(0.5)


def test_no_session_is_forecast_to_end_before_it_starts() -> None:
    """Starts are late again and again; of the ends nothing is known yet."""
    corrections = Corrections.new()
    raw = forecasts(running_for(0), learned(3, 1 / 60), corrections=corrections)[SessionId("waits")]
    assert raw.raw_start_us.p50 > NOW_US
    wait = raw.raw_start_us.later(-NOW_US)
    for number in range(30):
        corrections.starts.resolved(
            10 * HOUR_US, wait, pool=DEFAULT_POOL, at_us=number * 7 * 24 * HOUR_US, was_overdue=False
        )
    found = forecasts(running_for(0), learned(3, 1 / 60), corrections=corrections)[SessionId("waits")]
    assert found.start_us is not None
    assert found.end_us is not None
    assert all(start_us <= end_us for start_us, end_us in zip(found.start_us, found.end_us, strict=True))


def test_a_forecast_of_the_first_rows_alone_equals_the_full_one() -> None:
    state = on_one_gpu(*(waiting(f"s{number}", at=number) for number in range(9)))
    every = forecasts(state, learned(1))
    first = forecasts(state, learned(1), first_rows=3)
    assert list(first) == ["s0", "s1", "s2"]
    assert [hours_of(one) for one in first.values()] == [hours_of(every[name]) for name in first]


def test_a_long_queue_that_needs_the_slow_engine_is_forecast_only_in_part() -> None:
    """A thousand sessions would take 15 minutes, and the process is killed before that."""
    count = DECIDED_ROWS + 10
    rows = [waiting(f"s{number:03}", at=number) for number in range(count)]
    elastic = [replace(rows[0], cluster_size=1, kernels_max=2), *rows[1:]]
    state = replace(running_for(0), queue=elastic)
    found = forecasts(state, learned(0.5))
    assert len(found) == count
    told, beyond = list(found.values())[:DECIDED_ROWS], list(found.values())[DECIDED_ROWS:]
    assert [hours_of(one)[0] for one in told] == [0.5 + number / 2 for number in range(DECIDED_ROWS)]
    assert {(one.start_us, one.end_us, one.within_hour, one.unknown) for one in beyond} == {
        (None, None, None, "the queue is long and has elastic gangs: only the next 200 sessions are forecast")
    }
    asked = forecasts(state, learned(0.5), wanted=["s001", "s209"])
    assert asked == {SessionId(name): found[SessionId(name)] for name in ("s001", "s209")}
    plain = forecasts(replace(state, queue=rows), learned(0.5))
    assert "only the next" not in str(list(plain.values())[-1].unknown)


def test_forecasts_of_selected_sessions_equal_those_of_the_whole_queue() -> None:
    state = on_one_gpu(*(waiting(f"s{number}", at=number) for number in range(5)))
    every = forecasts(state, learned(1, 2))
    assert forecasts(state, learned(1, 2), wanted=["s3", "s1"]) == {
        name: every[name] for name in (SessionId("s1"), SessionId("s3"))
    }


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    hours=st.lists(st.floats(0.01, 100), min_size=1, max_size=5),
    revision=st.integers(0, 1000),
)
@examples(30)
def test_bands_are_in_order_and_ends_follow_starts(sizes: list[int], hours: list[float], revision: int) -> None:
    rows = [waiting(f"s{number}", at=number, gpus=gpus) for number, gpus in enumerate(sizes)]
    state = Snapshot(revision=revision, agents=pool(4), used={}, queue=rows)
    found = forecasts(state, learned(*hours))
    assert list(found) == [one.session_id for one in rows]
    for one in found.values():
        assert NOW_US <= one.raw_start_us.p10 <= one.raw_start_us.p50 <= one.raw_start_us.p90 <= NOW_US + BAND_MAX_US
        assert all(end > start for start, end in zip(one.raw_start_us, one.raw_end_us, strict=True))
        assert 0 <= one.raw_within_hour <= 1
        assert (one.start_us is None) is (one.unknown is not None)


def test_a_changed_session_is_forecast_in_the_same_futures_as_the_unchanged_one() -> None:
    """Two GPUs: one is free after an hour, the other after three; a session that wants both waits for the second."""
    runs, bob = learned(1), UserId("bob")
    for _ in range(RUNS_MIN):
        runs.learn(EndedRun(workload=workload(user=bob), duration_ms=3 * HOUR_MS))
    short, long, both = waiting("short"), waiting("long", user=bob), waiting("both", gpus=2, at=2)
    state = replace(on_one_gpu(short, long, both), agents=pool(2))
    supposed = [HypotheticalSession(row=row, run_times=None) for row in (both, replace(both, request=short.request))]
    before, sooner = (forecasts(one.joined(state), runs, wanted=["both"])[both.session_id] for one in supposed)
    assert hours_of(before) == [3, 3, 3]
    assert hours_of(sooner) == [1, 1, 1]
