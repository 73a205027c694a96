"""No starvation: the bounds stated by the order policies, and with the head's reservation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.fairshare import Usage
from aliquot.core.model.plan import BacklogPeak
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow
from aliquot.core.scheduler.expected_ends import ESTIMATE_MS_UNKNOWN
from aliquot.core.scheduler.ordering import PREEMPTIVE, in_order, order_named
from aliquot.core.scheduler.shares import PARTS_PER_ONE
from aliquot_schema.ids import ProjectId, SessionId, UserId
from aliquot_schema.policies import DAY_MS, Backfill, Weights
from aliquot_schema.sessions import DEFAULT_POOL, Priority
from allocation_devices import gpus
from core_cluster import on, row, snapshot, standing
from core_effort import examples
from core_policies import BACKFILLS, ORDER_NAMES
from core_simulation import ClusterSimulation, Job

SECOND_US = 1_000_000
HOUR_MS = 3_600_000
START_US = 1_793_500_000_000_000
every_order = pytest.mark.parametrize("order", [order for order in ORDER_NAMES if order not in PREEMPTIVE])
"""Every order with a stated bound."""


def bound_ms(order: str, one: PendingRow, weights: Weights, *, unit_ms: int) -> int:
    """Sessions later by more than this are behind it, as the policy docstrings state."""
    estimate_ms = ESTIMATE_MS_UNKNOWN if one.estimate_ms is None else one.estimate_ms
    all_but_age = weights.fair + weights.short + 3 * weights.priority
    return {
        "fcfs": 0,
        "priority": (Priority.CRITICAL - one.priority) * weights.level_ms,
        "sjf": estimate_ms * 100 // weights.sjf_age_pct,
        "fair_share": unit_ms * all_but_age // weights.age,
        "relative_age": unit_ms * (all_but_age - weights.fair) // weights.age,
    }[order]


@st.composite
def somebody(draw: st.DrawFn, name: str) -> PendingRow:
    """A session of any user and level."""
    estimate_ms = draw(st.sampled_from([None, 0, 1000, 7_200_000, 10**9]))
    fields = {"priority": draw(st.sampled_from(Priority)), "estimate_ms": estimate_ms}
    owner, project = UserId(draw(st.sampled_from("ab"))), ProjectId(draw(st.sampled_from("pq")))
    return row(name, owner=owner, project=project, **fields)


weighings = st.builds(
    Weights,
    age=st.integers(1, 5),
    fair=st.integers(0, 5),
    short=st.integers(0, 5),
    short_half_ms=st.sampled_from([1000, 14_400_000]),
    priority=st.integers(0, 5),
    level_ms=st.sampled_from([1000, 86_400_000]),
    sjf_age_pct=st.integers(1, 100),
)


@every_order
@examples(60)
@given(
    first=somebody("z"),
    later=somebody("a"),
    weights=weighings,
    used=st.integers(0, 10**6),
    wait_ms=st.integers(0, 10**10),
    beyond_ms=st.integers(0, 10**9),
    peak_ms=st.sampled_from([0, 5, 32_400_000, 30 * DAY_MS]),
)
def test_no_session_is_overtaken_by_one_submitted_later_than_the_bound(
    order: str,
    first: PendingRow,
    later: PendingRow,
    weights: Weights,
    used: int,
    wait_ms: int,
    beyond_ms: int,
    peak_ms: int,
) -> None:
    # Scores are whole multiples of a part of the unit, so a last part may be lost by rounding.
    unit_ms = HOUR_MS + peak_ms
    after_ms = bound_ms(order, first, weights, unit_ms=unit_ms) + beyond_ms + 2 * unit_ms // PARTS_PER_ONE + 2
    came_us = START_US + after_ms * 1000
    now_us = came_us + wait_ms * 1000
    rows = [replace(first, queued_us=START_US), replace(later, queued_us=came_us)]
    usage = Usage().held(used, user=first.owner, project=first.project, now_us=START_US - SECOND_US)
    state = snapshot([on("x", gpus(2))], rows, usage=usage, backlogs={DEFAULT_POOL: BacklogPeak(peak_ms, now_us)})
    inputs = standing(state, weights=weights, now_us=now_us, is_ready=False)
    assert in_order(order_named(order), inputs).tolist() == [0, 1]


WEIGHTS = Weights(age=1000, fair=11, short=22, priority=11, level_ms=60_000, sjf_age_pct=20)


@every_order
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_the_widest_session_starts_soon_after_its_bound_despite_favoured_sessions(
    order: str, backfill: Backfill
) -> None:
    """Four GPUs at full load, and one session that wants all four and has nothing in its favour."""
    wide = row("wide", at=START_US, cuda_device="4", priority=Priority.LOW, owner=UserId("a"), limit_ms=20_000)
    works = [Job(row=replace(wide, estimate_ms=40_000), duration_ms=20_000)]
    for number in range(200):
        at_us = START_US - 20 * SECOND_US + number // 2 * 10 * SECOND_US
        fields = {"priority": Priority.CRITICAL, "owner": UserId("b"), "estimate_ms": 1, "limit_ms": 20_000}
        works.append(Job(row=row(f"s{number:03}", at=at_us, **fields), duration_ms=19_000))
    usage = Usage().held(4000, user=UserId("a"), project=wide.project, now_us=START_US - 1000 * SECOND_US)
    simulation = ClusterSimulation(
        agents=(on("x", gpus(4)),),
        policy=Policy(order=order, backfill=backfill, weights=WEIGHTS),
        jobs=works,
        now_us=START_US - 20 * SECOND_US,
        usage=usage,
    )
    simulation.run(lambda _: None, passes=400)
    at_ms = (simulation.started_us[SessionId("wide")] - START_US) // 1000
    # Sessions ahead at the end of the bound start first, and the last of them runs for its limit.
    unit_ms = HOUR_MS + max((peak.peak_ms for peak in simulation.backlogs.values()), default=0)
    assert at_ms <= bound_ms(order, works[0].row, WEIGHTS, unit_ms=unit_ms) + 3 * 20_000
