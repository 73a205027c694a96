"""Budgets in the foreseen future: what a session has cost stays spent when it ends."""

from msgspec.structs import replace

from aliquot.core.fairshare import Usage
from aliquot.core.foresight.decided_cluster import DecidedCluster
from aliquot.core.foresight.remedies import remedies
from aliquot.core.model.plan import KernelPlacement
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import RunningRow, Snapshot
from aliquot_schema.billing import MICROS, Price, Prices
from aliquot_schema.ids import AgentId, DeviceId, KeyId, NodeId, ProjectId, SessionId, SlotName, UserId
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.reasons import RemedyKind
from allocation_devices import gpus
from core_cluster import NOW_US, on, row, snapshot

HOUR_US = 3_600_000_000
LAB = quota_id(QuotaScope.PROJECT, "lab")
POLICY = Policy(prices=Prices(rates=(Price(micros=10 * MICROS),)))
NOW = NOW_US + HOUR_US
NODE, GPU = NodeId("node-n"), DeviceId("cuda0")


def over_budget(*, budget: int) -> Snapshot:
    """Of two GPUs one is held, by a session that has cost 10 so far and is expected to end in an hour."""
    kernel = KernelPlacement(rank=0, agent_id=AgentId("n"), node_id=NODE, spec={SlotName("cuda.device"): {GPU: 1}})
    held = RunningRow(
        session_id=SessionId("held"),
        ends_us=NOW + HOUR_US,
        kernels=(kernel,),
        milli=1000,
        owner=UserId("ann"),
        project=ProjectId("lab"),
        granted_us=NOW_US,
        started_us=NOW_US,
    )
    quota = Quota(id=LAB, scope=QuotaScope.PROJECT, name="lab", budget=budget * MICROS)
    return snapshot(
        [on("n", gpus(2))],
        [row("waits", owner=UserId("ann"), project=ProjectId("lab"))],
        running=(held,),
        used={NODE: {GPU: gpus(1)[0].budget}},
        holders={NODE: {GPU: (SessionId("held"),)}},
        quotas={LAB: quota},
        usage=Usage().held(1000, user=UserId("ann"), project=ProjectId("lab"), now_us=NOW_US),
    )


def kinds(state: Snapshot) -> set[RemedyKind]:
    [waits] = state.queue
    return {one.change.kind for one in remedies(waits, state, POLICY, now_us=NOW)}


def test_a_session_under_a_spent_budget_does_not_start_when_those_that_spent_it_have_ended() -> None:
    assert RemedyKind.WAIT not in kinds(over_budget(budget=5))


def test_in_a_simulated_future_an_ended_session_has_cost_what_it_held() -> None:
    state = over_budget(budget=15)
    cluster = DecidedCluster(replace(state, queue=()), POLICY, seed=0)
    cluster.end(SessionId("held"), now_us=NOW + HOUR_US)
    assert sorted(cluster.snapshot().costs.values()) == [20 * MICROS] * 3
    [waits] = state.queue
    cluster.join(waits)
    assert not cluster.run(NOW + HOUR_US).starts


def test_a_simulated_session_costs_from_its_start() -> None:
    cluster = DecidedCluster(replace(over_budget(budget=25), queue=()), POLICY, seed=0)
    cluster.end(SessionId("held"), now_us=NOW)
    [first, second] = [row(name, owner=UserId("ann"), project=ProjectId("lab")) for name in ("first", "second")]
    cluster.join(first)
    assert cluster.run(NOW).starts
    cluster.join(second)
    assert not cluster.run(NOW + 2 * HOUR_US).starts


def test_a_simulated_session_costs_the_key_that_it_was_submitted_with() -> None:
    key = KeyId("laptop")
    budget = Quota(id=quota_id(QuotaScope.KEY, key), scope=QuotaScope.KEY, name=key, budget=15 * MICROS)
    cluster = DecidedCluster(snapshot([on("n", gpus(2))], [], quotas={budget.id: budget}), POLICY, seed=0)
    cluster.join(row("first", key_id=key))
    assert cluster.run(NOW).starts
    cluster.join(row("second", key_id=key))
    cluster.join(row("other", key_id=KeyId("desktop")))
    assert [start.name for start in cluster.run(NOW + 2 * HOUR_US).starts] == ["other"]
    cluster.end(SessionId("first"), now_us=NOW + 2 * HOUR_US)
    assert not cluster.run(NOW + 2 * HOUR_US).starts, "what it has cost stays spent"
