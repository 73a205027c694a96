"""Edge cases of counting, charging and usage decay."""

import time
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core import fairshare
from aliquot.core.fairshare import HALF_LIFE_MS, Usage, UsageBalance, decay, month_of
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import Queue
from aliquot.core.model.snapshot import ANYWHERE
from aliquot.core.prediction import RunTimes, Workload
from aliquot.core.quota import HOUR, counted, text_of
from aliquot.core.scheduler.backlog import AGE_UNIT_MS_MIN, BACKLOG_MS_MAX, PEAK_HALF_LIFE_MS
from aliquot.core.scheduler.expected_ends import (
    ESTIMATE_MS_UNKNOWN,
    PLANNED_MS_MIN,
    planned_duration_ms,
    planned_durations_ms,
)
from aliquot.core.scheduler.ordering import ORDERS
from aliquot.core.scheduler.shares import Shares
from aliquot.core.validation.fields import milliseconds
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import PoolId, ProjectId, SlotName, UserId
from aliquot_schema.policies import DAY_MS, Pool, Weights
from aliquot_schema.quotas import Account
from aliquot_schema.sessions import Priority
from allocation_devices import gpus
from core_cluster import on, row, snapshot, standing
from core_effort import examples

ANN, BOB, LAB = UserId("ann"), UserId("bob"), ProjectId("lab")
WEEK_US = HALF_LIFE_MS * 1000


def test_the_constants_are_what_the_documentation_says() -> None:
    assert (ESTIMATE_MS_UNKNOWN, PLANNED_MS_MIN) == (3_600_000, 60_000)
    assert (3_600_000, 30 * DAY_MS, round(30 * DAY_MS * log(2))) == (AGE_UNIT_MS_MIN, BACKLOG_MS_MAX, PEAK_HALF_LIFE_MS)
    assert HALF_LIFE_MS == 7 * 24 * 3_600_000
    assert HOUR == 1000 * 3_600_000


def test_entries_of_the_decay_tables_are_powers_of_a_half() -> None:
    tables = fairshare._decays()
    assert [len(table) for table in tables] == [256] * 5
    for digit, table in enumerate(tables):
        for value, kept in enumerate(table):
            assert kept / 2**62 == pytest.approx(2 ** -(value * 256**digit / 2**40), rel=1e-12)


@examples(100)
@given(elapsed_us=st.integers(0, 40 * WEEK_US), half_life_ms=st.integers(60_000, 10**10))
def test_decay_is_a_power_of_a_half_at_every_time(elapsed_us: int, half_life_ms: int) -> None:
    exact = 2.0 ** -(elapsed_us / (half_life_ms * 1000))
    assert decay(elapsed_us, half_life_ms=half_life_ms) / 2**62 == pytest.approx(exact, rel=1e-9, abs=1e-15)


def test_usage_decays_with_the_half_life_of_its_policy() -> None:
    account = Account(id="lab/ann", project=LAB, user=ANN, used=1000, at_us=0)
    day_ms = 86_400_000
    assert Usage.of([account], half_life_ms=day_ms).used_at(day_ms * 1000) == {(LAB, ANN): 500}
    held = Usage(half_life_ms=day_ms).held(1000, user=ANN, project=LAB, now_us=0)
    week = Usage().held(1000, user=ANN, project=LAB, now_us=0)
    assert held.used_at(WEEK_US)[LAB, ANN] < week.used_at(WEEK_US)[LAB, ANN]


def test_usage_decays_only_from_its_own_time_on() -> None:
    late = UsageBalance(used=1000, at_us=WEEK_US)
    assert [late.used_at(now_us) for now_us in (0, WEEK_US, 2 * WEEK_US)] == [1000, 1000, 500]
    day_ms = 86_400_000
    short = Usage(half_life_ms=day_ms).held(1000, user=ANN, project=LAB, now_us=0)
    ended = short.held(-1000, user=ANN, project=LAB, now_us=day_ms * 1000)
    expected = 1000 * day_ms / 0.6931471805599453 / 2
    assert ended.used_at(day_ms * 1000)[LAB, ANN] == pytest.approx(expected, rel=1e-9)


def test_the_record_of_a_user_without_usage_is_zero() -> None:
    record = Usage().record(LAB, BOB)
    assert (record.id, record.project, record.user) == ("lab/bob", LAB, BOB)
    assert (record.used, record.at_us, record.charged, record.month, record.month_charged) == (0, 0, 0, 0, 0)
    assert month_of(0) == 197001


def test_months_are_in_utc_regardless_of_the_time_zone_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        assert month_of(1_793_491_199_999_999) == 202610
        assert month_of(1_793_491_200_000_000) == 202611
    time.tzset()


def test_fairness_is_a_whole_number() -> None:
    usage = Usage().held(1000, user=ANN, project=LAB, now_us=0).held(-1000, user=ANN, project=LAB, now_us=WEEK_US)
    shares = Shares(usage, waiting=[(LAB, BOB), (ProjectId("shop"), BOB)], quotas={}, now_us=WEEK_US)
    terms = [shares.fairness(LAB, ANN), shares.fairness(LAB, BOB), shares.fairness(ProjectId("shop"), BOB)]
    assert [type(term) for term in terms] == [int] * 3
    assert terms == [266_666, 666_666, 1_000_000]


@pytest.mark.parametrize("order", sorted(ORDERS))
def test_scores_are_whole_numbers(order: str) -> None:
    queue = Queue.of([row("a"), row("b", at=7, estimate_ms=3)])
    scores = ORDERS[order](standing(snapshot([on("x")], queue), now_us=9))
    assert scores.dtype == np.int64


def test_the_score_of_fair_share_is_the_weighted_sum_of_its_terms() -> None:
    weights = Weights(age=3, fair=5, short=7, short_half_ms=1_000, priority=11)
    queue = Queue.of(
        [row("a", at=0, estimate_ms=1_000, priority=Priority.HIGH), row("b", at=1000, estimate_ms=3_000, owner=BOB)]
    )
    inputs = standing(snapshot([on("x", gpus(2))], queue), weights=weights, now_us=18_000_000_000, is_ready=False)
    levels = int(Priority.HIGH - Priority.LOW), int(Priority.NORMAL - Priority.LOW)
    # With one of two GPUs, a wait of 5 hours counts as 8.75.
    first = 3 * 8_750_000 + 5 * 1_000_000 + 7 * 500_000 + 11 * levels[0] * 1_000_000
    second = 3 * 8_749_998 + 5 * 1_000_000 + 7 * 250_000 + 11 * levels[1] * 1_000_000
    assert ORDERS["fair_share"](inputs).tolist() == [first, second]


@examples(60)
@given(
    estimate_ms=st.sampled_from([None, 0, 1, 360_000, 360_001, 10**7]),
    limit_ms=st.sampled_from([None, 0, 5]),
    default_ms=st.sampled_from([None, 8]),
    median_ms=st.sampled_from([None, 60_000, 10**7]),
    kept_ms=st.sampled_from([0, 1, 400_000]),
)
def test_the_planned_duration_of_one_session_equals_that_of_the_batch(
    estimate_ms: int | None, limit_ms: int | None, default_ms: int | None, median_ms: int | None, kept_ms: int
) -> None:
    fast = PoolId("fast")
    policy = Policy(pools={fast: Pool(default_limit_ms=default_ms)})
    one = row("a", estimate_ms=estimate_ms, limit_ms=limit_ms, where=replace(ANYWHERE, pool=fast), kept_ms=kept_ms)
    kind = Workload(user=ANN, program=None, milli=1000, limit_ms=limit_ms)
    found = planned_duration_ms(
        estimate_ms=estimate_ms, median_ms=median_ms, limit_ms=limit_ms, policy=policy, pool=fast, kept_ms=kept_ms
    )
    queue = Queue.of([row("z", at=-1, limit_ms=77), replace(one, workload=kind)])
    run_times = {} if median_ms is None else {kind: RunTimes(5, median_ms)}
    assert planned_durations_ms(queue, run_times, policy).tolist() == [77, found]
    expected = [value for value in (median_ms, estimate_ms, 3_600_000) if value is not None]
    whole = max(expected[0], 60_000) if default_ms is None else default_ms
    left = max(whole - kept_ms, 60_000) if kept_ms else whole
    assert found == (left if limit_ms is None else limit_ms)


def test_slots_of_one_kind_are_counted_together() -> None:
    pairs = [(SlotName("cuda.device"), 1), (SlotName("cuda.shares"), 500), (SlotName("cpu"), 2), (SlotName("cpu"), 3)]
    assert counted(pairs, times=2) == {"cuda.shares": 3000, "cpu": 10}
    assert counted(pairs) == {"cuda.shares": 1500, "cpu": 5}
    assert (text_of(SlotName("cuda.device"), 1500), text_of(SlotName("cuda.device"), 2000)) == ("1.50", "2")


def test_a_duration_of_zero_is_refused_with_the_range_that_is_allowed() -> None:
    with pytest.raises(InvalidRequest, match="grace: give more than 0 s and at most 86400 s, not 0 s"):
        milliseconds(0.0, field="grace", most_s=86_400)
