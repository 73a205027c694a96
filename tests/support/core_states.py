"""Random states with everything: running sessions, arrays, fallbacks, quotas, rights, preferences."""

from collections.abc import Mapping
from typing import Any, Final

from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.fairshare import Usage
from aliquot.core.model.plan import Placement
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import ANYWHERE, AgentRow, PendingRow, RunningRow, Snapshot
from aliquot.core.scheduler.decide import decide
from aliquot_schema.ids import ProjectId, QuotaId, UserId
from aliquot_schema.intervals import Intervals
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.resources.slots import ResourceSlot, SlotAmounts
from aliquot_schema.sessions import Priority, Topology
from core_cluster import NOW_US, after, snapshot
from core_strategies import agents, queues

SECOND_US: Final = 1_000_000
PLACES: Final = [
    *[ANYWHERE] * 5,
    replace(ANYWHERE, preferred_labels=(("net", "ib"),)),
    replace(ANYWHERE, labels=(("net", "ib"),)),
    replace(ANYWHERE, models=("H*",), preferred_models=("A*",)),
    replace(ANYWHERE, topology=Topology.REQUIRE),
]
LABELS: Final = [{}, {"net": "ib"}, {"switch": "s1"}, {"switch": "s2"}, {"rack": "s1"}, {"net": "ib", "switch": "s1"}]


@st.composite
def pending(draw: st.DrawFn, row: PendingRow) -> PendingRow:
    """A queue row with random user, level and time limit, possibly with many tasks."""
    tasks = draw(st.sampled_from([*[None] * 4, "0-1", "3,5-9"]))
    fields: dict[str, Any] = {
        "owner": UserId(draw(st.sampled_from("ab"))),
        "project": ProjectId(draw(st.sampled_from("pq"))),
        "priority": draw(st.sampled_from(Priority)),
        "estimate_ms": draw(st.sampled_from([None, 1000, 7_200_000])),
        "limit_ms": draw(st.sampled_from([None, 1, 30_000, 90_000])),
        "is_preemptible": draw(st.booleans()),
        "where": draw(st.sampled_from(PLACES)),
        "falls_back_us": draw(st.sampled_from([*[None] * 4, NOW_US, NOW_US + 9])),
    }
    if tasks is None:
        fields["is_immediate"] = draw(st.integers(0, 7)) == 0
    else:
        indices = Intervals.parse(tasks)
        fields |= {"tasks": indices, "tasks_startable": draw(st.integers(0, len(indices)))}
    return replace(row, **fields)


@st.composite
def runs(draw: st.DrawFn, placement: Placement, *, agents: tuple[AgentRow, ...]) -> RunningRow:
    """A placed session of a random user and level; it ends sometime, may be preemptible, or is ending."""
    ends_us = NOW_US + draw(st.sampled_from([-5, 10, 30, 60, 100])) * SECOND_US
    return replace(
        RunningRow.of(placement.session_id, placement.kernels, ends_us=ends_us, agents=agents),
        owner=UserId(draw(st.sampled_from("ab"))),
        project=ProjectId(draw(st.sampled_from("pq"))),
        priority=draw(st.sampled_from(Priority)),
        started_us=draw(st.sampled_from([None, 0, NOW_US - SECOND_US])),
        estimate_ms=draw(st.sampled_from([None, 1000, 7_200_000])),
        is_preemptible=draw(st.booleans()),
        preemptions=draw(st.sampled_from([0, 0, 1, 2])),
        is_leaving=draw(st.sampled_from([False, False, False, True])),
    )


@st.composite
def quotas(draw: st.DrawFn) -> Mapping[QuotaId, Quota]:
    """None, or quotas of existing owners."""
    found: dict[QuotaId, Quota] = {}
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        scope = draw(st.sampled_from([QuotaScope.USER, QuotaScope.PROJECT, QuotaScope.CLUSTER]))
        name = "" if scope is QuotaScope.CLUSTER else draw(st.sampled_from("ab" if scope is QuotaScope.USER else "pq"))
        slots = {"cuda.shares": draw(st.sampled_from([0, 500, 1500, 4000]))}
        limits = {"max_slots": SlotAmounts(slots)} if draw(st.booleans()) else {"own_slots": ResourceSlot(slots)}
        hours = draw(st.sampled_from([None, None, None, 0, 10_000]))
        identity = quota_id(scope, name)
        found[identity] = Quota(id=identity, scope=scope, name=name, gpu_hours_per_month=hours, **limits)
    return found


@st.composite
def states(draw: st.DrawFn, *, with_quotas: bool = True) -> Snapshot:
    """A cluster with running sessions, with or without known ends, and a queue with all kinds of rows."""
    cluster = [replace(agent, labels=draw(st.sampled_from(LABELS))) for agent in draw(agents())]
    ran = snapshot(cluster, draw(queues(prefix="ran")))
    first = decide(ran, Policy(), now_us=NOW_US, seed=0)
    before = after(ran, first)
    known = [draw(runs(one, agents=ran.agents)) for one in first.placements if draw(st.integers(0, 4))]
    queue = [draw(pending(row)) for row in draw(queues(prefix="ses"))]
    usage = Usage().held(draw(st.integers(0, 5000)), user=UserId("a"), project=ProjectId("p"), now_us=0)
    return snapshot(
        cluster,
        queue,
        usage=usage,
        used=before.used,
        holders=before.holders,
        running=tuple(known),
        dependencies={row.session_id: row.state for row in queue},
        quotas=draw(quotas()) if with_quotas else {},
    )
