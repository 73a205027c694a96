"""Idle sessions that are evicted for one waiting session: the smallest set that lets it start; checked by subsets."""

import random
from collections.abc import Collection
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.model.snapshot import IdleHold, PendingRow, RunningRow
from aliquot.core.scheduler.idle_evictions import SETS_MAX
from aliquot_schema.ids import SessionId
from aliquot_schema.sessions import PreemptionCause
from allocation_devices import gpus
from core_cluster import on, placed, row, shuffled
from core_effort import examples
from ordering_scenes import busy, passed, runs

NODES = (on("x", gpus(3)), on("y", gpus(3)), on("z", gpus(2)))
IDLE_MAX = 5
assert 2**IDLE_MAX - 2 <= SETS_MAX, "the search tries every set of these sessions"


def crowd(dice: random.Random) -> list[RunningRow]:
    """Every GPU is held, alone or with the next one of its node."""
    found: list[RunningRow] = []
    for node, count in zip(NODES, (3, 3, 2), strict=True):
        first = 0
        while first < count:
            size = dice.randint(1, min(2, count - first))
            devices = {"cuda.device": {f"cuda{first + index}": 1 for index in range(size)}}
            found.append(runs(f"{node.id}{first}", node, devices, ends_in_s=9000))
            first += size
    return found


def idle_of(running: list[RunningRow], dice: random.Random, most: int) -> dict[SessionId, IdleHold]:
    chosen = dice.sample(running, k=min(len(running), dice.randint(0, most)))
    return {one.session_id: IdleHold(idle_us=dice.randint(1, 3) * 3_600_000_000) for one in chosen}


def started(running: list[RunningRow], queue: list[PendingRow], gone: Collection[str]) -> set[str]:
    """The sessions that start once those in `gone` have ended."""
    return set(placed(passed(busy(NODES, [one for one in running if one.session_id not in gone], queue))))


@examples(50)
@given(
    seed=st.integers(0, 2**32), size=st.integers(1, 3), kernels=st.integers(1, 4), most=st.sampled_from([IDLE_MAX, 8])
)
def test_no_more_idle_sessions_are_evicted_than_a_waiting_one_needs(
    seed: int, size: int, kernels: int, most: int
) -> None:
    dice = random.Random(seed)
    running = crowd(dice)
    idle, queue = idle_of(running, dice, most), [row("next", cuda_device=str(size), cluster_size=kernels)]
    state = busy(NODES, running, queue, idle=idle)
    plan = passed(state)
    assert passed(shuffled(state, dice)) == plan
    evicted = {one.session_id for one in plan.evictions}
    helpful = (
        set(some)
        for number in range(len(idle) + 1)
        for some in combinations(idle, number)
        if started(running, queue, some)
    )
    smallest = next(helpful, set[SessionId]())
    if len(idle) <= IDLE_MAX or not smallest:
        assert len(evicted) == len(smallest)
    for left_out in evicted:
        assert started(running, queue, evicted)
        assert not started(running, queue, evicted - {left_out})
    assert {(one.cause, one.by_session) for one in plan.evictions} <= {(PreemptionCause.IDLE, "next")}
    assert evicted <= idle.keys()


@examples(25)
@given(seed=st.integers(0, 2**32))
def test_passes_evict_idle_sessions_until_no_more_sessions_start_for_them(seed: int) -> None:
    dice = random.Random(seed)
    running, by_session = crowd(dice), dict[SessionId, SessionId]()
    idle = idle_of(running, dice, 8)
    queue = [row(name, cuda_device="1", cluster_size=dice.randint(1, 4)) for name in ("one", "two", "three")]
    while True:
        now = [replace(one, is_leaving=one.session_id in by_session) for one in running]
        due = {name: replace(hold, by_session=by_session.get(name)) for name, hold in idle.items()}
        evictions = passed(busy(NODES, now, queue, idle=due)).evictions
        if not evictions:
            break
        assert not {one.session_id for one in evictions} & by_session.keys()
        by_session |= {one.session_id: SessionId(str(one.by_session)) for one in evictions}
        assert {one.by_session for one in evictions} & started(running, queue, by_session)
    assert started(running, queue, idle) <= started(running, queue, by_session)
