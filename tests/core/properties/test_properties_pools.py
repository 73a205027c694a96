"""Pools of agents are scheduled side by side: each as if it were alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import ANYWHERE, PendingRow, RunningRow, Snapshot
from aliquot_schema.ids import PoolId, SessionId
from aliquot_schema.policies import Backfill
from aliquot_schema.reasons import Reason
from allocation_devices import gpus
from core_cluster import NOW_US, on, placed, row, waits
from core_effort import examples
from ordering_scenes import SECOND_US, busy, passed, runs

POOLS = (PoolId("red"), PoolId("blue"))
NODES = tuple(replace(on(f"{pool}{node}", gpus(3)), pool=pool) for pool in POOLS for node in range(2))


def wants(name: str, pool: PoolId, *, at: int, gpus_each: int, seconds: int, kernels: int = 1) -> PendingRow:
    """A session of a pool with a time limit."""
    where = replace(ANYWHERE, pool=pool)
    return row(name, at=at, cuda_device=str(gpus_each), kernels=kernels, limit_ms=seconds * 1000, where=where)


@st.composite
def crowds(draw: st.DrawFn) -> Snapshot:
    """Two pools of two nodes with three GPUs, running sessions, and up to eight waiting ones."""
    running: list[RunningRow] = []
    for node in NODES:
        held = draw(st.integers(0, 3))
        if held:
            spec = {"cuda.device": {f"cuda{index}": 1 for index in range(held)}}
            running.append(runs(f"r{node.id}", node, spec, ends_in_s=draw(st.integers(1, 20))))
    asked = draw(st.lists(st.tuples(st.sampled_from(POOLS), st.integers(1, 3), st.integers(1, 2), st.integers(1, 30))))
    queue = [
        wants(f"q{number}", pool, at=number, gpus_each=each, kernels=kernels, seconds=seconds)
        for number, (pool, each, kernels, seconds) in enumerate(asked[:8])
    ]
    return busy(NODES, running, queue)


@pytest.mark.parametrize("backfill", Backfill)
@examples(60)
@given(state=crowds())
def test_each_pool_is_decided_as_if_it_were_alone(backfill: Backfill, state: Snapshot) -> None:
    policy = Policy(backfill=backfill, order="fcfs")
    plan = passed(state, policy)
    starts: list[str] = []
    latest_us: dict[SessionId, int] = {}
    for pool in POOLS:
        agents = [agent for agent in state.agents if agent.pool == pool]
        ids = {agent.id for agent in agents}
        here = [one for one in state.running if one.kernels[0].agent_id in ids]
        alone = passed(busy(agents, here, [one for one in state.queue if one.where.pool == pool]), policy)
        starts += placed(alone)
        latest_us |= alone.promised_us()
        for name, verdict in alone.verdicts.items():
            assert waits(plan, name).reason is verdict.reason
    assert sorted(placed(plan)) == sorted(starts)
    assert plan.promised_us() == latest_us


@pytest.mark.parametrize("backfill", [Backfill.EASY, Backfill.CONSERVATIVE])
def test_the_first_session_of_each_pool_is_not_delayed_by_later_ones(backfill: Backfill) -> None:
    red, blue = NODES[0], NODES[2]
    running = [
        runs("a", red, {"cuda.device": {f"cuda{index}": 1 for index in range(3)}}, ends_in_s=500),
        runs("b", blue, {"cuda.device": {"cuda0": 1}}, ends_in_s=100),
    ]
    queue = [
        wants("older", POOLS[0], at=1, gpus_each=1, seconds=60),
        wants("wide", POOLS[1], at=2, gpus_each=3, seconds=60),
        wants("long", POOLS[1], at=3, gpus_each=1, seconds=3600),
        wants("short", POOLS[1], at=4, gpus_each=1, seconds=90),
    ]
    plan = passed(busy([red, blue], running, queue), Policy(backfill=backfill, order="fcfs"))
    assert placed(plan) == ["short"]
    assert (waits(plan, "long").reason, waits(plan, "long").evidence.blocked_by) == (Reason.RESERVED, ("wide",))
    latest_us = plan.promised_us()
    assert [latest_us[SessionId(name)] - NOW_US for name in ("older", "wide")] == [500 * SECOND_US, 100 * SECOND_US]
