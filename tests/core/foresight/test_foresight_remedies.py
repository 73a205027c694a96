"""Remedies: each one shown works and is the cheapest of its kind, checked by passes that share no code."""

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.allocation.occupancy import occupancy_on
from aliquot.core.foresight.changes import LIMITS_MS, MINUTE_MS, SHARES_MILLI, AllowedChanges, ProposedChange
from aliquot.core.foresight.remedies import Remedy, remedies
from aliquot.core.model.plan import Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow, PendingRow, RunningRow, Snapshot
from aliquot.core.prediction import Workload
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.expected_ends import expected_end_us
from aliquot_schema.ids import PoolId, ProjectId, QuotaId, SessionId, UserId
from aliquot_schema.policies import Backfill, Preemption, PreemptScope
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.reasons import Reason, RemedyKind
from aliquot_schema.resources.slots import ResourceSlot, SlotAmounts
from aliquot_schema.sessions import Priority
from aliquot_schema.states import SessionState
from allocation_devices import gpus
from core_cluster import NOW_US, after, on, row, snapshot
from core_effort import examples
from core_states import states

HOUR_MS = 3_600_000
SECOND_US = 1_000_000
EASY = Policy(backfill=Backfill.EASY)
MEANS = AllowedChanges(projects=(ProjectId("p"), ProjectId("q")))


def policies() -> st.SearchStrategy[Policy]:
    return st.builds(
        Policy,
        order=st.sampled_from(["fcfs", "sjf", "priority", "fair_share"]),
        backfill=st.sampled_from(Backfill),
        preemption=st.sampled_from(
            [Preemption(preempt=PreemptScope.NONE), Preemption(preempt=PreemptScope.ANY, run_ms_min=0)]
        ),
    )


def plan_of(state: Snapshot, policy: Policy, *, now_us: int = NOW_US) -> Plan:
    return decide(state, policy, now_us=now_us, seed=0)


def by_hand(state: Snapshot, old: PendingRow, change: ProposedChange) -> Snapshot:
    """The changed snapshot, built without the code under test."""
    gone = {held.session_id for held in change.gone}
    used = {node: dict(held) for node, held in state.used.items()}
    layouts = {agent.id: agent.layout for agent in state.agents}
    for held in change.gone:
        for kernel in held.kernels:
            for device, amount in occupancy_on((kernel.spec,), layouts[kernel.agent_id].devices).items():
                used[kernel.node_id][device] -= amount
    return replace(
        state,
        queue=tuple(change.row if one.session_id == old.session_id else one for one in state.queue),
        used=used,
        holders={
            node: {device: tuple(name for name in names if name not in gone) for device, names in held.items()}
            for node, held in state.holders.items()
        },
        running=tuple(held for held in state.running if held.session_id not in gone),
        dependencies={
            name: SessionState.COMPLETED if name in gone else known for name, known in state.dependencies.items()
        },
        quotas={**state.quotas, **{quota.id: quota for quota in change.quotas}},
    )


def helps(state: Snapshot, policy: Policy, old: PendingRow, change: ProposedChange) -> bool:
    """Whether the session starts with the change, or others are preempted for it sooner."""
    now_us = NOW_US if change.at_us is None else change.at_us
    plan = plan_of(by_hand(state, old, change), policy, now_us=now_us)
    if any(one.session_id == old.session_id for one in plan.placements):
        return True
    until = [until_us(one, old.session_id) for one in (plan, plan_of(state, policy))]
    return until[0] is not None and (until[1] is None or until[0] < until[1])


def until_us(plan: Plan, name: SessionId) -> int | None:
    verdict = plan.verdicts.get(name)
    return verdict.evidence.until_us if verdict is not None and verdict.reason is Reason.MAKING_ROOM else None


def waiting(state: Snapshot, policy: Policy) -> list[PendingRow]:
    plan = plan_of(state, policy)
    started = {one.session_id for one in plan.placements}
    return [one for one in state.queue if one.session_id in plan.verdicts and one.session_id not in started]


@examples(60)
@given(states(), policies())
def test_every_remedy_works(state: Snapshot, policy: Policy) -> None:
    for one in waiting(state, policy):
        for remedy in remedies(one, state, policy, now_us=NOW_US, means=MEANS):
            assert helps(state, policy, one, remedy.change), remedy


@examples(60)
@given(states(), policies())
def test_the_cheapest_remedy_of_each_kind_is_found(state: Snapshot, policy: Policy) -> None:
    for one in waiting(state, policy):
        found = {remedy.change.kind: remedy for remedy in remedies(one, state, policy, now_us=NOW_US, means=MEANS)}
        for kind, tries in _everything(state, policy, one):
            expected = next((change for change in tries if helps(state, policy, one, change)), None)
            assert _asked(found.get(kind)) == _asked_by(expected), kind


def _everything(
    state: Snapshot, policy: Policy, one: PendingRow
) -> Iterable[tuple[RemedyKind, Sequence[ProposedChange]]]:
    """All changes of each kind, cheapest first."""

    def listed(kind: RemedyKind, changes: Iterable[dict[str, Any]]) -> tuple[RemedyKind, list[ProposedChange]]:
        return kind, [ProposedChange(kind=kind, row=replace(one, **change)) for change in changes]

    gaps = [(at_us - NOW_US) // 1000 for at_us in plan_of(state, policy).promised_us().values()]
    ladder = {*LIMITS_MS, *(gap - gap % MINUTE_MS - MINUTE_MS for gap in gaps)}
    shorter = [ms for ms in sorted(ladder, reverse=True) if ms > 0 and (one.limit_ms is None or ms < one.limit_ms)]
    safe = [ms for ms in shorter if all(gap < ms or gap - ms >= MINUTE_MS for gap in gaps)]
    yield listed(RemedyKind.TIME_LIMIT, [{"limit_ms": ms} for ms in safe])
    yield listed(RemedyKind.PREEMPTIBLE, [{"is_preemptible": True}] if not one.is_preemptible else [])
    yield listed(RemedyKind.PROJECT, [{"project": name} for name in "pq" if name != one.project])
    yield listed(RemedyKind.PRIORITY, [{"priority": level} for level in Priority if level > one.priority])
    whole = [_size(cluster_size=count, kernels_max=None) for count in range(one.cluster_size - 1, 0, -1)]
    yield listed(RemedyKind.FEWER_KERNELS, whole)
    asked = dict(one.request)
    rest = tuple((slot, amount) for slot, amount in one.request if not slot.startswith(("cuda", "gpu")))
    devices, shares = asked.get("cuda.device", 0), asked.get("cuda.shares", 0)
    counts = [(("cuda.device", count),) for count in range(devices - 1, 0, -1)]
    milli = {*range(1000, shares, 1000), *(share for share in SHARES_MILLI if share < shares)}
    counts += [(("cuda.shares", share),) for share in sorted(milli, reverse=True)]
    yield listed(RemedyKind.FEWER_GPUS, [_size(request=tuple(sorted(rest + part))) for part in counts])
    parts = [(("cuda.shares", share),) for share in SHARES_MILLI] if devices == 1 else []
    yield listed(RemedyKind.SHARE, [_size(request=tuple(sorted(rest + part))) for part in parts])
    yield RemedyKind.WAIT, _ends(state, one)
    able = [held for held in state.running if held.is_preemptible and not held.is_leaving and held.milli]
    able.sort(key=lambda held: (held.milli, -(held.started_us or NOW_US), held.session_id))
    yield RemedyKind.PREEMPT, [ProposedChange(kind=RemedyKind.PREEMPT, row=one, gone=(held,)) for held in able]


def _size(**fields: Any) -> dict[str, Any]:
    return {**fields, "fallback_level": 0, "falls_back_us": None}


def _ends(state: Snapshot, one: PendingRow) -> list[ProposedChange]:
    times = {held.session_id: expected_end_us(held, now_us=NOW_US) for held in state.running}
    return [
        ProposedChange(
            kind=RemedyKind.WAIT,
            row=one,
            gone=tuple(held for held in state.running if times[held.session_id] <= at_us),
            at_us=at_us,
        )
        for at_us in sorted(set(times.values()))
    ]


def _asked(remedy: Remedy | None) -> object:
    return None if remedy is None else _asked_by(remedy.change)


def _asked_by(change: ProposedChange | None) -> object:
    return None if change is None else (change.row, {held.session_id for held in change.gone}, change.at_us)


def busy(*names: str, ends_s: int = 3600, agents: Sequence[AgentRow], **more: Any) -> Snapshot:
    """A cluster where these sessions hold a GPU each."""
    ran = snapshot(agents, [row(name) for name in names])
    plan = plan_of(ran, Policy())
    held = [
        RunningRow.of(one.session_id, one.kernels, ends_us=NOW_US + ends_s * SECOND_US, agents=ran.agents)
        for one in plan.placements
    ]
    return replace(after(ran, plan), running=tuple(held), **more)


def of_kind(
    state: Snapshot, name: str, *, policy: Policy = EASY, means: AllowedChanges = MEANS
) -> dict[RemedyKind, Remedy]:
    [wanted] = [one for one in state.queue if one.session_id == name]
    return {one.change.kind: one for one in remedies(wanted, state, policy, now_us=NOW_US, means=means)}


def test_remedies_offer_the_free_gpus_and_the_time_when_all_are_free() -> None:
    state = busy("a", agents=[on("n", gpus(4))], queue=(row("big", cuda_device="4"),))
    found = of_kind(state, "big")
    assert dict(found[RemedyKind.FEWER_GPUS].change.row.request) == {"cuda.device": 3}
    assert [held.session_id for held in found[RemedyKind.WAIT].change.gone] == ["a"]
    assert found[RemedyKind.WAIT].starts_us == NOW_US + 3600 * SECOND_US
    assert found[RemedyKind.FEWER_GPUS].delays == ()


def test_an_elastic_gang_with_fewer_kernels_than_its_fewest_starts_with_exactly_these() -> None:
    """As the change of `cluster_size` makes it. Its run time is looked up by all kernels that it asks for."""
    workload = Workload(user=UserId("ann"), program=None, milli=8000, limit_ms=None)
    gang = row("gang", kernels=6, kernels_max=8, cuda_device="1", workload=workload)
    found = of_kind(busy("a", agents=[on("n", gpus(6))], queue=(gang,)), "gang")
    changed = found[RemedyKind.FEWER_KERNELS].change.row
    assert (changed.cluster_size, changed.kernels_max) == (5, None)
    assert changed.workload == replace(workload, milli=5000)
    assert len(found[RemedyKind.FEWER_KERNELS].kernels) == 5
    held = replace(gang, cluster_size=5, state=SessionState.HELD)
    released = of_kind(busy("a", agents=[on("n", gpus(6))], queue=(held,)), "gang")[RemedyKind.RELEASE].change.row
    assert (released.kernels_max, released.workload) == (8, workload)


def test_a_shorter_time_limit_ends_a_minute_before_the_blocking_reservation() -> None:
    queue = (row("head", cuda_device="4", at=1), row("small", cuda_device="1", at=2, limit_ms=3 * HOUR_MS))
    state = busy("a", agents=[on("n", gpus(4))], ends_s=3600, queue=queue)
    remedy = of_kind(state, "small")[RemedyKind.TIME_LIMIT]
    assert remedy.change.row.limit_ms == 59 * MINUTE_MS
    assert remedy.delays == ()


def test_a_remedy_names_the_sessions_that_would_wait_longer() -> None:
    queue = (row("head", cuda_device="4", at=1), row("urgent", cuda_device="3", at=2, limit_ms=3 * HOUR_MS))
    state = busy("a", agents=[on("n", gpus(4))], ends_s=3600, queue=queue)
    policy = Policy(order="priority", backfill=Backfill.EASY)
    remedy = of_kind(state, "urgent", policy=policy)[RemedyKind.PRIORITY]
    assert remedy.change.row.priority is Priority.HIGH
    [delay] = remedy.delays
    assert (delay.session_id, delay.before_us) == ("head", NOW_US + 3600 * SECOND_US)
    assert delay.after_us == NOW_US + 3 * HOUR_MS * 1000


def test_another_project_or_a_raised_quota_is_offered_only_if_it_lets_the_session_start() -> None:
    name = quota_id(QuotaScope.PROJECT, "p")
    own = quota_id(QuotaScope.USER, "ann")
    quotas: dict[QuotaId, Quota] = {
        name: Quota(id=name, scope=QuotaScope.PROJECT, name="p", max_slots=SlotAmounts({"cuda.device": 1})),
        own: Quota(id=own, scope=QuotaScope.USER, name="ann", max_slots=SlotAmounts({"cuda.shares": 1000})),
    }
    asked = row("two", cuda_device="2", project=ProjectId("p"), owner=UserId("ann"))
    state = busy(agents=[on("n", gpus(4))], queue=(asked,), quotas=quotas)
    found = of_kind(state, "two")
    assert RemedyKind.PROJECT not in found
    raised = {quota.id: quota for quota in found[RemedyKind.QUOTA].change.quotas}
    assert dict(raised[name].max_slots) == {"cuda.device": 2}
    assert dict(raised[own].max_slots) == {"cuda.shares": 2000}
    free = of_kind(replace(state, quotas={name: quotas[name]}), "two")
    assert free[RemedyKind.PROJECT].change.row.project == "q"


def test_becoming_preemptible_is_offered_to_a_session_that_could_borrow_idle_devices() -> None:
    own = quota_id(QuotaScope.PROJECT, "p")
    quota = Quota(id=own, scope=QuotaScope.PROJECT, name="p", own_slots=ResourceSlot({"cuda.device": 1}))
    policy = Policy(backfill=Backfill.EASY, preemption=Preemption(preempt=PreemptScope.PREEMPTIBLE))
    asked = row("two", cuda_device="2", project=ProjectId("p"))
    state = busy(agents=[on("n", gpus(4))], queue=(asked,), quotas={own: quota})
    assert of_kind(state, "two", policy=policy)[RemedyKind.PREEMPTIBLE].change.row.is_preemptible


def test_another_pool_and_another_model_are_offered_where_they_are_free() -> None:
    other = replace(on("m", gpus(2)), pool=PoolId("spare"))
    state = busy("a", "b", agents=[on("n", gpus(2)), other], queue=(row("c"),))
    assert of_kind(state, "c")[RemedyKind.POOL].change.row.where.pool == "spare"


def test_no_change_is_offered_to_a_caller_without_the_right_to_change_the_session() -> None:
    state = busy("a", agents=[on("n", gpus(4))], queue=(row("big", cuda_device="4", kernels=1),))
    assert set(of_kind(state, "big", means=AllowedChanges(may_change=False))) == {RemedyKind.WAIT}


def test_a_release_is_offered_only_to_a_caller_with_the_right_to_release() -> None:
    state = busy(agents=[on("n", gpus(1))], queue=(row("a", state=SessionState.HELD),))
    assert set(of_kind(state, "a")) == {RemedyKind.RELEASE}
    assert of_kind(state, "a", means=AllowedChanges(may_release=False)) == {}
