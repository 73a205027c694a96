"""Recall of owned devices: an owner gets them wherever borrowers that may be recalled hold them; checked by subsets."""

import random
from collections.abc import Iterable
from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import RunningRow
from aliquot.core.scheduler.decide import decide
from aliquot_schema.ids import ProjectId, QuotaId
from aliquot_schema.policies import Preemption
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.resources.slots import ResourceSlot
from aliquot_schema.sessions import PreemptionCause
from allocation_devices import gpus
from core_cluster import NOW_US, on, row
from core_effort import examples
from ordering_scenes import busy, runs

NODES = (on("x", gpus(3)), on("y", gpus(3)), on("z", gpus(2)))
POLICY = Policy(preemption=Preemption(run_ms_min=0, preemptions_max=3))


def owns(project: str, devices: int) -> dict[QuotaId, Quota]:
    name = quota_id(QuotaScope.PROJECT, project)
    own = ResourceSlot({"cuda.device": devices})
    return {name: Quota(id=name, scope=QuotaScope.PROJECT, name=project, own_slots=own)}


def held(name: str, place: tuple[int, int], size: int, *, work_s: int, project: str = "lender") -> RunningRow:
    """Whole GPUs of one node, or half of one GPU (size 0)."""
    node, first = place
    devices = {f"cuda{first + index}": 1 for index in range(size)}
    spec = {"cuda.device": devices} if size else {"cuda.shares": {f"cuda{first}": 500}}
    plain = runs(name, NODES[node], spec, ends_in_s=3600)
    return replace(plain, started_us=NOW_US, estimate_ms=work_s * 1000, project=ProjectId(project))


def crowd(dice: random.Random) -> list[RunningRow]:
    """Every GPU is held: by one session, by two that share it, or with its neighbour."""
    found: list[RunningRow] = []
    for node, count in enumerate((3, 3, 2)):
        first = 0
        while first < count:
            size = dice.randint(0, min(2, count - first))
            for part in range(1 if size else 2):
                work_s, project = dice.randint(0, 9) * 100, dice.choice(["lender", "lender", "stranger"])
                found.append(held(f"{'xyz'[node]}{first}{part}", (node, first), size, work_s=work_s, project=project))
            first += max(size, 1)
    return found


def free_after(gone: Iterable[RunningRow], running: Iterable[RunningRow]) -> list[int]:
    """GPUs of each node that become free as a whole."""
    left = {one.session_id for one in gone}
    kept = {
        (k.agent_id, device)
        for one in running
        if one.session_id not in left
        for k in one.kernels
        for given in k.spec.values()
        for device in given
    }
    return [sum((node.id, device) not in kept for device in node.layout.devices) for node in NODES]


def milli_of(sessions: Iterable[RunningRow]) -> int:
    return sum(one.milli for one in sessions if one.project == "lender")


@examples(150)
@given(seed=st.integers(0, 2**32), own=st.integers(1, 6), size=st.integers(1, 3), kernels=st.integers(1, 3))
def test_an_owner_gets_what_it_owns_wherever_borrowers_hold_it(seed: int, own: int, size: int, kernels: int) -> None:
    """Of gangs that need nearly all that is borrowed, not every set is tried."""
    running = crowd(random.Random(seed))
    quotas = owns("owner", 8) | owns("lender", own)
    wants = row("wants", cuda_device=str(size), kernels=kernels, project=ProjectId("owner"))
    if size * kernels > 8 or sum(count // size for count in (3, 3, 2)) < kernels:
        return
    plan = decide(busy(NODES, running, [wants], quotas=quotas), POLICY, now_us=NOW_US, seed=0)
    chosen = {eviction.session_id for eviction in plan.evictions}
    victims = [one for one in running if one.session_id in chosen]
    borrowed = max(milli_of(running) - own * 1000, 0)
    assert milli_of(victims) <= borrowed, "the other project keeps what it owns"
    assert {eviction.cause for eviction in plan.evictions} <= {PreemptionCause.QUOTA}
    subsets = chain.from_iterable(combinations(running, count) for count in range(1, len(running) + 1))
    enough = any(
        milli_of(some) <= borrowed and sum(count // size for count in free_after(some, running)) >= kernels
        for some in subsets
    )
    assert enough or not chosen
    assert chosen or not enough or kernels > 1
