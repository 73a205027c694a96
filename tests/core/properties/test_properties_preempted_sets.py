"""The set of victims is inclusion-minimal: checked against every subset, on two nodes of eight."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import RunningRow
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.ordering import PREEMPTIVE
from aliquot_schema.ids import ProjectId, SessionId
from aliquot_schema.policies import Backfill
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.reasons import Reason
from aliquot_schema.resources.slots import ResourceSlot
from aliquot_schema.sessions import PreemptionCause, Priority
from allocation_devices import gpus
from core_cluster import NOW_US, on, placed, row, waits
from core_effort import examples
from core_policies import ORDER_NAMES, RULES, some_placement
from ordering_scenes import busy, runs

NODES = (on("x", gpus(8)), on("y", gpus(8)))
OWNER = Quota(
    id=quota_id(QuotaScope.PROJECT, "owner"),
    scope=QuotaScope.PROJECT,
    name="owner",
    own_slots=ResourceSlot({"cuda.device": 64}),
)
Free = tuple[tuple[int, ...], tuple[int, ...]]
"""Milli of each device by node."""


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """All running sessions, the preemptible and the leaving ones."""

    running: tuple[RunningRow, ...]
    asked: frozenset[SessionId]
    leaving: frozenset[SessionId]

    def free(self, gone: frozenset[SessionId]) -> Free:
        """Free amounts without these."""
        free = [[1000] * 8, [1000] * 8]
        for one in self.running:
            if one.session_id not in gone:
                for kernel in one.kernels:
                    for slot, amounts in kernel.spec.items():
                        for device, amount in amounts.items():
                            milli = amount * 1000 if slot == "cuda.device" else amount
                            free[kernel.agent_id == "y"][int(device.removeprefix("cuda"))] -= milli
        return tuple(free[0]), tuple(free[1])


@st.composite
def crowds(draw: st.DrawFn) -> Crowd:
    """Sessions of one to five devices, and pairs that share one; at most eight preemptible ones."""
    running: list[RunningRow] = []
    asked, leaving = set(), set()
    begins = [0, 0]
    for number in range(draw(st.integers(1, 9))):
        node, is_part = draw(st.integers(0, 1)), draw(st.integers(0, 3)) == 0
        count = 1 if is_part else draw(st.integers(1, 5))
        if begins[node] + count > 8:
            continue
        names = [f"cuda{index}" for index in range(begins[node], begins[node] + count)]
        begins[node] += count
        parts = [("cuda.shares", 600), ("cuda.shares", 300)] if is_part else [("cuda.device", 1)]
        for place, (slot, amount) in enumerate(parts):
            name = SessionId(f"r{number}{'ab'[place]}")
            kind = draw(st.sampled_from(["stays", "asked", "asked", "asked", "leaves"]))
            kind = "stays" if kind == "asked" and len(asked) == 8 else kind
            {"asked": asked, "leaves": leaving, "stays": set[SessionId]()}[kind].add(name)
            held = runs(name, NODES[node], {slot: dict.fromkeys(names, amount)}, ends_in_s=3600)
            may_be = kind == "asked"
            running.append(
                replace(
                    held,
                    started_us=0,
                    estimate_ms=draw(st.sampled_from([None, 0, 9_000_000])),
                    priority=Priority.LOW if may_be else Priority.CRITICAL,
                    project=ProjectId("borrower" if may_be else "owner"),
                    is_leaving=kind == "leaves",
                )
            )
    return Crowd(running=tuple(running), asked=frozenset(asked), leaving=frozenset(leaving))


def fits(free: Free, asked: str, kernels: int) -> bool:
    """Whole devices of one node, or a part of one device."""
    if "." in asked:
        milli = int(float(asked) * 1000)
        return sum(part // milli for node in free for part in node) >= kernels
    return sum(sum(part == 1000 for part in node) // int(asked) for node in free) >= kernels


def subsets(of: frozenset[SessionId]) -> Sequence[frozenset[SessionId]]:
    """All subsets, smallest first."""
    return [frozenset(some) for size in range(len(of) + 1) for some in combinations(sorted(of), size)]


@pytest.mark.parametrize("backfill", Backfill)
@pytest.mark.parametrize("cause", [PreemptionCause.PRIORITY, PreemptionCause.QUOTA])
@examples(40)
@given(
    crowd=crowds(),
    asked=st.sampled_from(["1", "2", "3", "5", "8", "0.5", "0.8"]),
    kernels=st.integers(1, 4),
    order=st.sampled_from([order for order in ORDER_NAMES if order not in PREEMPTIVE]),
    placement=some_placement,
)
def test_victims_are_inclusion_minimal(
    cause: PreemptionCause, backfill: Backfill, crowd: Crowd, asked: str, kernels: int, order: str, placement: str
) -> None:
    slot = {"cuda_shares" if "." in asked else "cuda_device": asked}
    urgent = row("a", kernels=kernels, priority=Priority.CRITICAL, project=ProjectId("owner"), **slot)
    quotas = {OWNER.id: OWNER} if cause is PreemptionCause.QUOTA else {}
    order = "priority" if cause is PreemptionCause.PRIORITY else order
    policy = Policy(order=order, backfill=backfill, placement=placement, preemption=RULES)
    plan = decide(busy(NODES, crowd.running, [urgent], quotas=quotas), policy, now_us=NOW_US, seed=0)
    chosen = frozenset(eviction.session_id for eviction in plan.evictions)
    causes = {cause, PreemptionCause.PRIORITY} if order == "priority" else {cause}
    assert {eviction.cause for eviction in plan.evictions} <= causes
    assert (placed(plan) == ["a"]) == fits(crowd.free(frozenset()), asked, kernels)
    if placed(plan):
        assert not chosen
        return
    enough = [some for some in subsets(crowd.asked) if fits(crowd.free(some | crowd.leaving), asked, kernels)]
    if not enough:
        assert not chosen
        assert waits(plan, "a").reason is not Reason.MAKING_ROOM
        return
    assert waits(plan, "a").reason is Reason.MAKING_ROOM
    assert chosen in enough
    assert not any(other < chosen for other in enough)
    assert set(waits(plan, "a").evidence.blocked_by) <= chosen | crowd.leaving
