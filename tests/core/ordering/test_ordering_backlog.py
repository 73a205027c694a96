"""The backlog: predicted work that is left, and how its peaks are kept."""

from math import exp

import pytest
from msgspec.structs import replace

from aliquot.core.model.agent_index import AgentIndex
from aliquot.core.model.plan import BacklogPeak, KernelPlacement, Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import ANYWHERE, RunningRow, Snapshot
from aliquot.core.prediction import RunTimes, Workload
from aliquot.core.scheduler.backlog import BACKLOG_MS_MAX, peak_ms
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.score_text import explain_score
from aliquot_schema.billing import AtBudget, Price, Prices
from aliquot_schema.ids import AgentId, NodeId, PoolId, SessionId, UserId
from aliquot_schema.intervals import Intervals
from aliquot_schema.policies import DAY_MS, Backfill, Weights
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.sessions import DEFAULT_POOL
from aliquot_schema.states import SessionState
from allocation_devices import cores, gpus
from core_cluster import on, row, snapshot, standing

HOUR_MS = 3_600_000
NOW_US = 50 * DAY_MS * 1000
FAST = PoolId("fast")
RULES = Policy(order="relative_age", backfill=Backfill.EASY)


def running(name: str, *devices: int, ran_ms: int, estimate_ms: int | None) -> RunningRow:
    kernel = KernelPlacement(
        rank=0,
        agent_id=AgentId("x"),
        node_id=NodeId("node-x"),
        spec={"cuda.device": {f"cuda{number}": 1 for number in devices}},
    )
    plain = RunningRow.of(SessionId(name), [kernel], ends_us=NOW_US + 10**12, agents=[on("x", gpus(8))])
    return replace(plain, started_us=NOW_US - ran_ms * 1000, estimate_ms=estimate_ms)


def backlog_ms(state: Snapshot, pool: PoolId = DEFAULT_POOL) -> int:
    return passed(state).backlogs[pool].peak_ms


def passed(state: Snapshot) -> Plan:
    return decide(state, RULES, now_us=NOW_US, seed=0)


def test_the_backlog_is_the_waiting_work_and_the_remaining_running_work_per_gpu() -> None:
    kind = Workload(user=UserId("ann"), program=None, milli=2000, limit_ms=None)
    waiting = [
        row("own", cuda_device="4", estimate_ms=6 * HOUR_MS),
        row("predicted", cuda_device="2", workload=kind, limit_ms=9 * HOUR_MS),
        row("limited", cuda_device="1", limit_ms=8 * HOUR_MS),
        row("unknown", cuda_device="8"),
        row("array", cuda_device="1", estimate_ms=2 * HOUR_MS, tasks=Intervals(((0, 3),))),
        row("held", cuda_device="8", estimate_ms=DAY_MS, state=SessionState.HELD),
        row("too wide", cuda_device="9", estimate_ms=DAY_MS),
    ]
    known = {kind: RunTimes(4 * HOUR_MS, HOUR_MS)}
    state = snapshot([on("x", gpus(8))], waiting, run_times=known)
    of_waiting = 3 * HOUR_MS + HOUR_MS + HOUR_MS + HOUR_MS + HOUR_MS
    assert backlog_ms(state) == of_waiting
    held = (
        running("new", 0, 1, ran_ms=HOUR_MS, estimate_ms=5 * HOUR_MS),
        running("over", 2, 3, ran_ms=20 * HOUR_MS, estimate_ms=HOUR_MS),
        running("?", 4, 5, ran_ms=HOUR_MS // 2, estimate_ms=None),
        running("long ?", 6, 7, ran_ms=DAY_MS, estimate_ms=None),
    )
    assert backlog_ms(replace(state, running=held)) == of_waiting + HOUR_MS + HOUR_MS + HOUR_MS // 8


def test_each_pool_has_its_own_backlog_and_cpu_sessions_are_sized_by_cores() -> None:
    agents = [on("x", [*gpus(8), *cores(range(10))]), replace(on("y", gpus(2)), pool=FAST)]
    rows = [
        row("a", cuda_device="4", estimate_ms=2 * HOUR_MS),
        row("b", cpu="5", estimate_ms=4 * HOUR_MS),
        row("c", cuda_device="1", estimate_ms=8 * HOUR_MS, where=replace(ANYWHERE, pool=FAST)),
    ]
    found = passed(snapshot(agents, rows)).backlogs
    assert found == {DEFAULT_POOL: BacklogPeak(2 * HOUR_MS, NOW_US), FAST: BacklogPeak(4 * HOUR_MS, NOW_US)}
    scale = standing(snapshot(agents, rows), now_us=NOW_US).scale
    assert scale.units_ms.tolist() == [3 * HOUR_MS, 3 * HOUR_MS, 5 * HOUR_MS]
    assert scale.parts.tolist() == [500_000, 500_000, 500_000]


def test_a_peak_decays_by_e_in_thirty_days_and_only_a_higher_one_replaces_it() -> None:
    rows = [row("a", cuda_device="8", estimate_ms=10 * HOUR_MS)]
    for days in (0, 1, 30, 90):
        peak = BacklogPeak(11 * HOUR_MS, NOW_US - days * DAY_MS * 1000)
        left_ms = peak_ms(peak, NOW_US)
        assert left_ms == pytest.approx(11 * HOUR_MS * exp(-days / 30), abs=2)
        state = snapshot([on("x", gpus(8))], rows, backlogs={DEFAULT_POOL: peak})
        is_higher = left_ms < 10 * HOUR_MS
        assert passed(state).backlogs == ({DEFAULT_POOL: BacklogPeak(10 * HOUR_MS, NOW_US)} if is_higher else {})
        unit_ms = HOUR_MS + max(left_ms, 10 * HOUR_MS)
        assert standing(state, now_us=NOW_US).scale.units_ms.tolist() == [unit_ms]


def test_a_backlog_counts_for_a_month_at_most() -> None:
    rows = [row(name, cuda_device="8", estimate_ms=10**12) for name in "abc"]
    assert backlog_ms(snapshot([on("x", gpus(8))], rows)) == BACKLOG_MS_MAX


def test_the_unit_of_age_of_an_empty_cluster_is_an_hour() -> None:
    state = snapshot([], [row("a", cuda_device="1", estimate_ms=DAY_MS)])
    plan = passed(state)
    assert plan.backlogs == {}
    assert standing(state, now_us=NOW_US, is_ready=False).scale.units_ms.tolist() == [HOUR_MS]


def explained(state: Snapshot, name: str, policy: Policy) -> str | None:
    index = AgentIndex(state.agents)
    return explain_score(state, policy, SessionId(name), now_us=NOW_US, index=index)


def test_a_score_explanation_gives_each_weight_and_its_worth_in_waiting_time() -> None:
    fair = replace(RULES, order="fair_share", weights=Weights())
    kind = Workload(user=UserId("ann"), program=None, milli=0, limit_ms=None)
    rows = [
        row("a", at=NOW_US - 2 * HOUR_MS * 1000, cpu="1", workload=kind),
        row("b", at=NOW_US, cuda_device="8", limit_ms=4 * HOUR_MS),
    ]
    state = snapshot(
        [on("x", [*gpus(8), *cores(range(100))])],
        rows,
        run_times={kind: RunTimes(600_000, 60_000)},
        backlogs={DEFAULT_POOL: BacklogPeak(8 * HOUR_MS, NOW_US)},
    )
    assert explained(state, "a", fair) == (
        "waited 2 h of 9 h: +0.23; 10 min long: +1.92 (17 h 16 min of waiting); priority normal: +1.00 (9 h of "
        "waiting); use of its share counts 1.00 of 1: +0.25 (2 h 15 min of waiting); sum 3.40. 1.00 is 9 h of waiting: "
        "an hour and the backlog of 8 h. No session of the same priority that came more than 20 h 15 min later starts "
        "before an earlier one by order, unless it asks for a larger part of the pool. Once a session is first, "
        "backfill delays it only if other sessions run longer than planned."
    )
    wide = explained(state, "b", RULES)
    assert wide is not None
    assert wide.startswith("waited less than a second of 9 h, which count 2.50 times for its size: +0.00; ")
    assert "at most 4 h long: +1.00 (9 h of waiting); priority" in wide
    assert "share" not in wide
    assert "there is no backlog" in str(explained(replace(state, backlogs={}), "b", RULES))
    assert str(explained(state, "a", replace(RULES, order="sjf"))).startswith(
        "No session that came more than 1 h 40 min later starts before an earlier one by order."
    )
    assert explained(state, "c", RULES) is None


def test_a_score_explanation_has_the_priority_that_a_spent_budget_leaves() -> None:
    """`decide` orders by the same priority."""
    quota = Quota(id=quota_id(QuotaScope.USER, "ann"), scope=QuotaScope.USER, name="ann", budget=0)
    prices = Prices(rates=(Price(micros=1),), at_budget=AtBudget.LOW)
    state = snapshot([on("x")], [row("a", owner=UserId("ann"))], quotas={quota.id: quota})
    assert "; priority normal: +1.00" in str(explained(state, "a", RULES))
    assert "; priority low: +0.00" in str(explained(state, "a", replace(RULES, prices=prices)))
