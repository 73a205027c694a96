"""Shortcuts change the duration of a pass, not its plan."""

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.model.plan import Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow, PendingRow, RunningRow, Snapshot
from aliquot.core.placement.placement_state import PlacementState
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.free_capacity import FreeCapacity
from aliquot.core.scheduler.placer import Placer
from aliquot_schema.policies import Backfill
from aliquot_schema.resources.devices import Device
from allocation_devices import cores, gpu, pool
from core_cluster import NOW_US, after, on, placed, row, snapshot
from core_effort import examples
from core_plan_probe import encoded, large_snapshot, some_policies
from core_speed_reference import without_shortcuts
from core_strategies import snapshots

ASKED = (
    {"cuda_device": "1", "cpu": "3", "mem": "2k"},
    {"cuda_device": "2", "cpu": "5"},
    {"cuda_device": "4", "cpu": "4", "mem": "4k"},
    {"cuda_shares": "0.3", "cpu": "1", "mem": "1k"},
    {"cuda_shares": "0.5", "cpu": "2"},
    {"cuda_shares": "0.81"},
    {"cuda_shares": "1.2", "cpu": "2"},
    {"cpu": "7", "mem": "2k"},
    {"cpu": "1"},
)
"""Requests that fill nodes with GPUs and cores in two NUMA nodes."""


def node(number: int, dice: random.Random) -> AgentRow:
    """Up to eight GPUs, some linked, and sixteen cores, in two NUMA nodes."""
    count = dice.choice((0, 1, 2, 4, 8))
    linked = dice.random() < 0.3
    devices: list[Device] = [
        gpu(
            index,
            numa_node=index * 2 // count,
            memory_bytes=dice.choice((24, 80)) * 10**9,
            linked_to=(f"cuda{index ^ 1}",) if linked else (),
        )
        for index in range(count)
    ]
    devices += [*cores(range(8), numa_node=0), *cores(range(8, 16), numa_node=1)]
    devices += [pool(0, size=16384)] if dice.random() < 0.7 else [pool(0, size=9000), pool(1, size=9000, numa_node=1)]
    return on(f"agent{number}", devices)


def queue(dice: random.Random, *, count: int, prefix: str) -> list[PendingRow]:
    """Rows of few kinds, some gangs, some with a time limit."""
    return [
        row(
            f"{prefix}{number:03d}",
            at=number,
            kernels=dice.choice((1, 1, 1, 1, 2, 3)),
            limit_ms=dice.choice((None, 60_000, 600_000)),
            gpu_memory_bytes=dice.choice((None, None, None, 40 * 10**9)),
            **dice.choice(ASKED),
        )
        for number in range(count)
    ]


def then(state: Snapshot, plan: Plan, more: Sequence[PendingRow]) -> Snapshot:
    """The state after the plan: its sessions run, and further rows wait."""
    started = [
        RunningRow.of(one.session_id, one.kernels, ends_us=NOW_US + number * 1_000_000, agents=state.agents)
        for number, one in enumerate(plan.placements)
    ]
    gone = {*placed(plan), *plan.failures}
    waiting = [pending for pending in state.queue if pending.session_id not in gone]
    asked = Counter(pending.request for pending in (*waiting, *more))
    state = after(state, plan, queue=[*waiting, *more])
    return replace(state, running=(*state.running, *started), asked=asked)


@examples(25)
@given(dice=st.randoms(use_true_random=False), backfill=st.sampled_from(Backfill))
def test_the_shortcuts_fill_nodes_with_the_same_placements(dice: random.Random, backfill: Backfill) -> None:
    policy, memo = Policy(backfill=backfill), PassCache()
    state = snapshot([node(number, dice) for number in range(dice.randint(1, 5))], queue(dice, count=20, prefix="a"))
    for number in range(3):
        plan = decide(state, policy, now_us=NOW_US + number, seed=0, known=memo)
        with without_shortcuts():
            assert encoded(decide(state, policy, now_us=NOW_US + number, seed=0)) == encoded(plan)
        state = then(state, plan, queue(dice, count=8, prefix=f"b{number}"))


@examples(25)
@given(dice=st.randoms(use_true_random=False))
def test_kept_free_capacity_after_placements_equals_a_new_count(dice: random.Random) -> None:
    state = snapshot([node(number, dice) for number in range(3)], ())
    room = FreeCapacity(state, Policy())
    assert room.free_milli() >= 0
    placer = Placer(state, Policy(), capacity=room, seed=0)
    for pending in queue(dice, count=8, prefix="a"):
        placer.take(pending.session_id, placer.place(pending))
    placer.keep()
    kept, anew = room.cache.placement_state, PlacementState(room.agent_index.open, room.used)
    assert kept is not None
    assert kept.cluster.free.tolist() == anew.cluster.free.tolist()
    assert room.free_milli() == FreeCapacity(replace(state, used=room.used), Policy()).free_milli()


@examples(40)
@given(state=snapshots())
def test_the_shortcuts_give_the_same_plan_on_odd_devices_and_shared_nodes(state: Snapshot) -> None:
    plan = decide(state, Policy(), now_us=NOW_US, seed=0)
    with without_shortcuts():
        assert encoded(decide(state, Policy(), now_us=NOW_US, seed=0)) == encoded(plan)


@pytest.mark.parametrize("policy", some_policies(), ids=lambda policy: f"{policy.order}-{policy.placement}")
def test_the_shortcuts_give_the_same_plan_under_every_policy(policy: Policy) -> None:
    state = large_snapshot()
    plan = decide(state, policy, now_us=NOW_US, seed=0)
    with without_shortcuts():
        assert encoded(decide(state, policy, now_us=NOW_US, seed=0)) == encoded(plan)
