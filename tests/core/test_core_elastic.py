"""Elastic gangs start with what fits, and never take reserved devices."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.foresight.engine import unsupported
from aliquot.core.model.plan import Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow
from aliquot.core.scheduler.decide import decide
from aliquot_schema.ids import DeviceId, SlotName, UserId
from aliquot_schema.policies import Backfill
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.reasons import Reason
from aliquot_schema.resources.slots import ResourceSlot
from aliquot_schema.sessions import PreemptionCause
from allocation_devices import gpu
from core_cluster import NOW_US, decided, on, placed, row, snapshot, waits
from ordering_scenes import busy, runs

EVERY = tuple(Backfill)
HOUR_US = 3_600_000_000
FOUR = on("a1", [gpu(index) for index in range(4)])
THREE = on("b2", [gpu(index) for index in range(4, 7)])


def elastic(name: str, *, least: int, most: int, **more: Any) -> PendingRow:
    return row(name, kernels=least, kernels_max=most, **more)


def sizes(plan: Plan) -> dict[str, int]:
    return {str(placement.session_id): len(placement.kernels) for placement in plan.placements}


@pytest.mark.parametrize("backfill", EVERY)
@pytest.mark.parametrize(("least", "most", "starts"), [(1, 9, 7), (2, 6, 6), (7, 8, 7), (8, 9, None), (3, 3, 3)])
def test_an_elastic_gang_starts_with_as_many_kernels_as_fit(
    backfill: Backfill, least: int, most: int, starts: int | None
) -> None:
    gang = elastic("gang", least=least, most=most)
    plan = decide(snapshot([FOUR, THREE], [gang]), Policy(backfill=backfill), now_us=NOW_US, seed=0)
    assert sizes(plan) == ({} if starts is None else {"gang": starts})
    assert [kernel.rank for one in plan.placements for kernel in one.kernels] == list(range(starts or 0))


def test_the_first_elastic_gang_takes_its_maximum_and_the_next_gets_the_rest() -> None:
    queue = [elastic("first", at=1, least=2, most=5), elastic("second", at=2, least=1, most=5), row("third", at=3)]
    assert sizes(decided([FOUR, THREE], queue)) == {"first": 5, "second": 2}


@pytest.mark.parametrize("backfill", [Backfill.EASY, Backfill.CONSERVATIVE])
def test_an_elastic_gang_does_not_use_devices_reserved_for_the_head(backfill: Backfill) -> None:
    held = runs("holds", FOUR, {"cuda.device": {str(gpu(0).id): 1}}, ends_in_s=600)
    head = row("head", at=1, cuda_device="4", estimate_ms=3_600_000)
    gang = elastic("gang", at=2, least=1, most=6, estimate_ms=3_600_000)
    state = busy([FOUR, THREE], [held], [head, gang])
    plan = decide(state, Policy(order="fcfs", backfill=backfill), now_us=NOW_US, seed=0)
    assert sizes(plan) == {"gang": 3}
    assert {kernel.agent_id for kernel in plan.placements[0].kernels} == {"b2"}
    assert plan.reservation is not None
    assert plan.reservation.session_id == "head"
    short = replace(gang, estimate_ms=60_000, limit_ms=60_000)
    plan = decide(replace(state, queue=(head, short)), Policy(order="fcfs", backfill=backfill), now_us=NOW_US, seed=0)
    assert sizes(plan) == {"gang": 6}, "it ends before the head starts"


def test_an_elastic_gang_at_the_head_waits_for_its_smallest_size() -> None:
    held = [
        runs(f"holds{number}", FOUR, {"cuda.device": {str(gpu(number).id): 1}}, ends_in_s=100 * (number + 1))
        for number in range(4)
    ]
    state = busy([FOUR], held, [elastic("gang", least=2, most=4)])
    plan = decide(state, Policy(backfill=Backfill.EASY), now_us=NOW_US, seed=0)
    assert plan.reservation is not None
    assert plan.reservation.at_us == NOW_US + 200_000_000
    assert waits(plan, "gang").reason is Reason.INSUFFICIENT


@pytest.mark.parametrize("backfill", EVERY)
def test_an_elastic_gang_takes_no_more_than_its_quota(backfill: Backfill) -> None:
    name = quota_id(QuotaScope.USER, "ann")
    quota = Quota(id=name, version=1, scope=QuotaScope.USER, name="ann", max_slots=ResourceSlot({"cuda.device": 3}))
    queue = [
        elastic("gang", at=1, least=1, most=7, owner=UserId("ann")),
        elastic("too much", at=2, least=1, most=2, owner=UserId("ann")),
        row("other", at=3, owner=UserId("ben")),
    ]
    state = snapshot([FOUR, THREE], queue, quotas={name: quota})
    plan = decide(state, Policy(backfill=backfill), now_us=NOW_US, seed=0)
    assert sizes(plan) == {"gang": 3, "other": 1}
    assert waits(plan, "too much").reason is Reason.QUOTA


@settings(deadline=None)
@given(least=st.integers(1, 4), most=st.integers(1, 9), gpus=st.integers(1, 7), size=st.integers(1, 2))
def test_an_elastic_gang_starts_exactly_when_its_smallest_size_would(
    least: int, most: int, gpus: int, size: int
) -> None:
    cards = [gpu(index) for index in range(gpus)]
    agents = [on(name, part) for name, part in (("a1", cards[:4]), ("b2", cards[4:])) if part]
    asked = {"cuda_device": str(size)}
    small = decided(agents, [row("gang", kernels=least, **asked)])
    plan = decided(agents, [row("gang", kernels=least, kernels_max=max(least, most), **asked)])
    assert placed(plan) == placed(small)
    for placement in plan.placements:
        fits = min(gpus, 4) // size + max(gpus - 4, 0) // size
        assert len(placement.kernels) == min(max(least, most), fits)


def grown(*, running: int = 1, queue: tuple[PendingRow, ...] = (), policy: Policy | None = None, **held: Any) -> Plan:
    """A pass over a gang of one to four kernels that has run on `running` of four GPUs for an hour."""
    spec = {"cuda.device": {str(gpu(0).id): 1}}
    one = runs("gang", FOUR, spec, ends_in_s=7200)
    kernels = tuple(
        replace(one.kernels[0], rank=rank, spec={SlotName("cuda.device"): {DeviceId(str(gpu(rank).id)): 1}})
        for rank in range(running)
    )
    usual: dict[str, Any] = {
        "started_us": NOW_US - HOUR_US,
        "checkpoint_ms": 0,
        "estimate_ms": 4 * 3_600_000,
        "elastic": elastic("gang", least=1, most=4) if running < 4 else None,
    }
    row_held = replace(one, kernels=kernels, milli=1000 * running, **usual | held)
    return decide(busy([FOUR], [row_held], queue), policy or Policy(), now_us=NOW_US, seed=0)


def test_a_shrunken_gang_grows_when_there_is_room() -> None:
    (eviction,) = grown().evictions
    assert (eviction.session_id, eviction.cause, eviction.by_session) == ("gang", PreemptionCause.GROW, None)
    assert not grown(running=4).evictions
    assert not grown(queue=(row("waits", cuda_device="4"),)).evictions, "another session waits for the room"
    assert not grown(checkpoint_ms=None).evictions, "it would lose all of its work"
    assert not grown(preemptions=3).evictions


@pytest.mark.parametrize(
    ("held", "grows"),
    [
        ({"estimate_ms": 3_600_000 + 200_000, "grace_ms": 600_000}, False),
        ({"estimate_ms": 3_600_000 + 200_000, "grace_ms": 0}, True),
        ({"estimate_ms": 3_600_000 + 200_000, "grace_ms": 3_600_000}, False),
        ({"checkpoint_ms": 600_000, "saved_ms": 0}, True),
        ({"checkpoint_ms": 600_000, "saved_ms": 0, "estimate_ms": 2 * 3_600_000}, False),
        ({"checkpoint_ms": 600_000, "saved_ms": 3_590_000, "estimate_ms": 2 * 3_600_000}, True),
    ],
)
def test_an_elastic_gang_grows_when_the_gain_exceeds_the_loss(held: dict[str, Any], grows: bool) -> None:
    plan = grown(**held)
    assert bool(plan.evictions) == grows
    assert (plan.wake_at_us is None) == grows, "it is considered again"


def test_an_elastic_gang_does_not_grow_before_its_minimum_run_time() -> None:
    rules = replace(Policy().preemption, run_ms_min=2 * 3_600_000)
    plan = grown(policy=Policy(preemption=rules))
    assert (plan.evictions, plan.wake_at_us) == ((), NOW_US + HOUR_US)


def test_an_elastic_gang_grows_only_within_its_quota() -> None:
    name = quota_id(QuotaScope.USER, "ann")
    quota = Quota(id=name, version=1, scope=QuotaScope.USER, name="ann", max_slots=ResourceSlot({"cuda.device": 1}))
    plan = grown(owner=UserId("ann"), elastic=elastic("gang", least=1, most=4, owner=UserId("ann")))
    assert plan.evictions
    one = runs("gang", FOUR, {"cuda.device": {str(gpu(0).id): 1}}, ends_in_s=7200)
    asks = elastic("gang", least=1, most=4, owner=UserId("ann"))
    held = replace(
        one, started_us=NOW_US - HOUR_US, checkpoint_ms=0, estimate_ms=10**8, owner=UserId("ann"), elastic=asks
    )
    state = busy([FOUR], [held], [], quotas={name: quota})
    assert not decide(state, Policy(), now_us=NOW_US, seed=0).evictions


def test_the_fast_engine_does_not_support_elastic_gangs() -> None:
    state = snapshot([FOUR], [elastic("gang", least=1, most=4)])
    assert unsupported(state, Policy(order="fcfs")) == "elastic gangs"
