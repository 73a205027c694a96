"""What is true of every plan, over random clusters and queues, under every order policy with and without backfill."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.core.allocation.occupancy import occupancy_on
from aliquot.core.decide import decide
from aliquot.core.fairshare import Usage
from aliquot.core.memo import Memo
from aliquot.core.ordering import ORDERS
from aliquot.core.plan import Placement, Plan
from aliquot.core.policy import Policy
from aliquot.core.queue import Queue
from aliquot.core.recheck import still_fits
from aliquot.core.snapshot import PendingRow, RunningRow, Snapshot
from aliquot_schema.ids import DeviceId, NodeId, ProjectId, UserId
from aliquot_schema.policies import Backfill, Pool
from aliquot_schema.reasons import Reason
from aliquot_schema.sessions import DEFAULT_POOL, Priority
from core_cluster import NOW_US, after, shuffled, snapshot
from core_effort import examples
from core_plan_probe import encoded
from core_strategies import agents, queues

SECOND_US = 1_000_000
POLICIES = [Policy(order=order, backfill=backfill) for order in sorted(set(ORDERS) - {"gang"}) for backfill in Backfill]
OWN_REASONS = frozenset(
    {Reason.CLUSTER_UNAVAILABLE, Reason.HELD, Reason.DEPENDENCY, Reason.NOT_BEFORE, Reason.NO_AGENT}
)
every_policy = pytest.mark.parametrize("policy", POLICIES, ids=lambda one: f"{one.order}-{one.backfill}")
tuned = examples(40)


def timed(draw: st.DrawFn, row: PendingRow) -> PendingRow:
    fields: dict[str, Any] = {
        "owner": UserId(draw(st.sampled_from("ab"))),
        "project": ProjectId(draw(st.sampled_from("pq"))),
        "priority": draw(st.sampled_from(Priority)),
        "estimate_ms": draw(st.sampled_from([None, 1000, 7_200_000])),
        "limit_ms": draw(st.sampled_from([None, 1, 30_000, 90_000])),
    }
    return replace(row, **fields)


def running(state: Snapshot, plan: Plan, ends_s: list[int]) -> tuple[RunningRow, ...]:
    """What a plan placed, each to end at its time."""
    return tuple(
        RunningRow.of(one.session_id, one.kernels, ends_us=NOW_US + end_s * SECOND_US, agents=state.agents)
        for one, end_s in zip(plan.placements, ends_s, strict=False)
    )


@st.composite
def states(draw: st.DrawFn) -> Snapshot:
    """A cluster on which sessions run that end at known times, or at none, and a queue with everything in it."""
    cluster = draw(agents())
    ran = snapshot(cluster, draw(queues(prefix="ran")))
    first = decide(ran, Policy(), now_us=NOW_US, seed=0)
    before = after(ran, first)
    ends_s = draw(st.lists(st.sampled_from([-5, 10, 30, 60, 100]), min_size=0, max_size=6))
    queue = [timed(draw, row) for row in draw(queues(prefix="ses"))]
    usage = Usage().held(draw(st.integers(0, 5000)), user=UserId("a"), project=ProjectId("p"), now_us=0)
    more = {"used": before.used, "holders": before.holders, "running": running(before, first, ends_s)}
    return snapshot(cluster, queue, usage=usage, **more)


def plan_of(state: Snapshot, policy: Policy) -> Plan:
    return decide(state, policy, now_us=NOW_US, seed=0)


@every_policy
@tuned
@given(state=states())
def test_every_pending_session_gets_one_answer_and_the_plan_fits_the_state(policy: Policy, state: Snapshot) -> None:
    plan = plan_of(state, policy)
    answers = [placement.session_id for placement in plan.placements] + [*plan.failures, *plan.verdicts]
    assert sorted(answers) == sorted(row.session_id for row in state.queue)
    used = dict(state.used)
    layouts = {agent.id: agent.layout for agent in state.agents}
    assert all(still_fits(placement, layouts=layouts, used=used) for placement in plan.placements)
    sizes = {row.session_id: row.cluster_size for row in state.queue}
    assert all(len(placement.kernels) == sizes[placement.session_id] for placement in plan.placements)


@every_policy
@tuned
@given(state=states(), seed=st.integers())
def test_a_plan_is_the_same_bytes_in_any_order_cold_or_warm(policy: Policy, state: Snapshot, seed: int) -> None:
    mixed = shuffled(state, random.Random(seed))
    mixed = replace(mixed, running=state.running[::-1], usage=state.usage)
    cold = plan_of(state, policy)
    assert encoded(plan_of(mixed, policy)) == encoded(cold)
    known = Memo()
    half = Queue.of(list(state.queue)[::2])
    decide(replace(state, queue=half), policy, now_us=NOW_US, seed=0, known=known)
    warm = replace(state, queue=half.changed(joined=list(state.queue)[1::2]))
    assert encoded(decide(warm, policy, now_us=NOW_US, seed=0, known=known)) == encoded(cold)


@every_policy
@tuned
@given(state=states())
def test_what_is_not_explained_is_decided_alike(policy: Policy, state: Snapshot) -> None:
    brief = decide(state, policy, now_us=NOW_US, seed=0, explains=False)
    assert brief.placements == plan_of(state, policy).placements
    assert all(verdict.reason in OWN_REASONS for verdict in brief.verdicts.values())


@every_policy
@tuned
@given(state=states())
def test_nobody_is_left_waiting_who_fits_and_delays_nobody(policy: Policy, state: Snapshot) -> None:
    """Under backfill, whoever waits lacks something, or is told whom he would delay."""
    plan = plan_of(state, policy)
    behind = [verdict for verdict in plan.verdicts.values() if verdict.reason is Reason.BEHIND_HEAD]
    reserved = [verdict for verdict in plan.verdicts.values() if verdict.reason is Reason.RESERVED]
    if policy.backfill is Backfill.NONE:
        assert not reserved
        assert plan.reservation is None
        return
    assert not behind
    for verdict in reserved:
        assert plan.reservation is not None
        assert verdict.evidence.blocked_by == (plan.reservation.session_id,)
    left = {row.session_id for row in state.queue} - {placement.session_id for placement in plan.placements}
    unpromised = replace(after(state, plan), queue=[row for row in state.queue if row.session_id in left], running=())
    again = decide(unpromised, policy, now_us=NOW_US, seed=0)
    told = {name for name, verdict in plan.verdicts.items() if verdict.reason is Reason.RESERVED}
    # Without a promise in the way, those start that were told of one, and nobody else.
    assert {placement.session_id for placement in again.placements} <= told


@pytest.mark.parametrize("order", sorted(set(ORDERS) - {"gang"}))
@tuned
@given(state=states())
def test_the_head_starts_when_it_was_promised_if_everybody_keeps_to_his_guard(order: str, state: Snapshot) -> None:
    policy = Policy(order=order, backfill=Backfill.EASY, pools={DEFAULT_POOL: Pool(default_limit_ms=50_000)})
    plan = plan_of(state, policy)
    promise = plan.reservation
    if promise is None:
        return
    at_us = promise.at_us if promise.at_us is not None else NOW_US
    limits = {row.session_id: 50_000 if row.limit_ms is None else row.limit_ms for row in state.queue}
    late = [one for one in plan.placements if NOW_US + limits[one.session_id] * 1000 > at_us]
    gone = {row.session_id for row in state.running if row.ends_us <= at_us}
    used = {node_id: dict(held) for node_id, held in state.used.items()}
    _take_away(used, [row for row in state.running if row.session_id in gone], state)
    held = after(replace(state, used=used), replace(plan, placements=tuple(late)))
    layouts = {agent.id: agent.layout for agent in state.agents}
    version = next(row.version for row in state.queue if row.session_id == promise.session_id)
    placement = Placement(session_id=promise.session_id, version=version, kernels=promise.kernels)
    assert still_fits(placement, layouts=layouts, used=dict(held.used))


@pytest.mark.parametrize("order", sorted(set(ORDERS) - {"gang"}))
@tuned
@given(state=states())
def test_a_session_that_ends_sooner_never_makes_the_head_start_later(order: str, state: Snapshot) -> None:
    policy = Policy(order=order, backfill=Backfill.EASY)
    before = plan_of(replace(state, queue=_first_waiting(state, policy)), policy).reservation
    if before is None or before.at_us is None:
        return
    sooner = [replace(row, ends_us=row.ends_us - 7 * SECOND_US) for row in state.running]
    queue = _first_waiting(state, policy)
    now = plan_of(replace(state, queue=queue, running=sooner), policy).reservation
    assert now is not None
    assert now.at_us is None or now.at_us <= before.at_us


def _first_waiting(state: Snapshot, policy: Policy) -> list[PendingRow]:
    """The head alone, where there is one that is promised something."""
    promise = plan_of(state, policy).reservation
    return [row for row in state.queue if promise is not None and row.session_id == promise.session_id]


def _take_away(used: dict[NodeId, dict[DeviceId, int]], rows: list[RunningRow], state: Snapshot) -> None:
    devices = {agent.id: agent.layout.devices for agent in state.agents}
    for row in rows:
        for kernel in row.kernels:
            for device_id, amount in occupancy_on((kernel.spec,), devices[kernel.agent_id]).items():
                used[kernel.node_id][device_id] -= amount
