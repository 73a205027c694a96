"""Properties of every plan, under every order, backfill and placement."""

import copy
from collections import Counter
from collections.abc import Iterable
from typing import Any

from hypothesis import given
from msgspec.structs import replace

from aliquot.core.allocation.options import is_of_model
from aliquot.core.model.plan import Plan, still_fits
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, RunningRow, Snapshot
from aliquot.core.quota import counted, counted_in, limits
from aliquot.core.scheduler.decide import NOT_PLACED, decide
from aliquot_schema.ids import DeviceId
from aliquot_schema.quotas import Quota, QuotaScope
from aliquot_schema.reasons import Reason
from aliquot_schema.resources.devices import Device, DeviceHealth
from aliquot_schema.states import SessionState
from core_cluster import NOW_US, after
from core_effort import examples
from core_policies import every_policy
from core_states import states

OF_THE_GATE = frozenset(
    {
        Reason.CLUSTER_UNAVAILABLE,
        Reason.HELD,
        Reason.DEPENDENCY,
        Reason.NOT_BEFORE,
        Reason.NO_AGENT,
        Reason.ARRAY_LIMIT,
    }
)


def plan_of(state: Snapshot, policy: Policy) -> Plan:
    return decide(state, policy, now_us=NOW_US, seed=0)


@every_policy
@examples(4)
@given(state=states())
def test_every_plan_is_complete_and_respects_devices_and_quotas(policy: Policy, state: Snapshot) -> None:
    before = copy.deepcopy(state)
    plan = plan_of(state, policy)
    assert state == before, "a pass changes nothing of its input"
    every_session_gets_one_answer(state, plan)
    who_does_not_wait_comes_last(state, plan)
    every_reason_has_what_it_rests_on(state, plan)
    every_placement_is_whole_and_allowed(state, plan)
    no_device_is_overbooked(state, plan)
    no_quota_is_exceeded(state, plan)
    what_is_not_explained_is_decided_alike(state, plan, policy)


def every_session_gets_one_answer(state: Snapshot, plan: Plan) -> None:
    rows = {row.session_id: row for row in state.queue}
    starts = Counter(placement.session_id for placement in plan.placements)
    assert not set(plan.failures) & (set(starts) | set(plan.verdicts))
    assert set(rows) == set(starts) | set(plan.failures) | set(plan.verdicts)
    for name, row in rows.items():
        tasks = 1 if row.tasks is None else len(row.tasks)
        assert (name in plan.verdicts) == (name not in plan.failures and starts[name] < tasks)
        assert starts[name] <= row.tasks_startable
    assert not set(plan.fallbacks) & set(starts), "who starts keeps what it asked for"


def who_does_not_wait_comes_last(state: Snapshot, plan: Plan) -> None:
    hurried = {row.session_id for row in state.queue if row.is_immediate}
    starts = [placement.session_id in hurried for placement in plan.placements]
    assert starts == sorted(starts)
    assert not hurried & (set(plan.verdicts) | {one.session_id for one in plan.promises})
    assert all(eviction.by_session not in hurried for eviction in plan.evictions)
    assert {name for name, failure in plan.failures.items() if failure == NOT_PLACED} <= hurried


def every_reason_has_what_it_rests_on(state: Snapshot, plan: Plan) -> None:
    """The session's own causes come first."""
    rows = {row.session_id: row for row in state.queue}
    for name, verdict in plan.verdicts.items():
        row, evidence = rows[name], verdict.evidence
        assert (verdict.reason is Reason.HELD) == (row.state is SessionState.HELD)
        if verdict.reason is Reason.NOT_BEFORE:
            assert plan.wake_at_us is not None
            assert row.not_before_us is not None
            assert NOW_US < plan.wake_at_us <= row.not_before_us == evidence.until_us
        if verdict.reason in (Reason.BEHIND_HEAD, Reason.RESERVED, Reason.DEPENDENCY):
            assert evidence.blocked_by
        if verdict.reason is Reason.QUOTA:
            assert evidence.quota in state.quotas
        if verdict.reason is Reason.GANG_INCOMPLETE:
            assert evidence.fits_kernels in range(1, row.cluster_size)
        if verdict.reason is Reason.INSUFFICIENT:
            assert evidence.slot in dict(row.request)


def every_placement_is_whole_and_allowed(state: Snapshot, plan: Plan) -> None:
    rows = {row.session_id: row for row in state.queue}
    agents = {agent.id: agent for agent in state.agents}
    assert len({(placement.session_id, placement.index) for placement in plan.placements}) == len(plan.placements)
    for placement in plan.placements:
        row = rows[placement.session_id]
        assert placement.version == row.version
        assert row.state is SessionState.QUEUED
        assert row.not_before_us is None or row.not_before_us <= NOW_US
        assert placement.index is None if row.tasks is None else placement.index in row.tasks
        assert [kernel.rank for kernel in placement.kernels] == list(range(len(placement.kernels)))
        assert row.cluster_size <= len(placement.kernels) <= (row.kernels_max or row.cluster_size)
        for kernel in placement.kernels:
            agent = agents[kernel.agent_id]
            assert agent.is_open
            assert agent.id not in row.excluded_agents
            assert agent.pool == row.where.pool
            assert dict(row.where.labels).items() <= agent.labels.items()
            assert {slot: sum(amounts.values()) for slot, amounts in kernel.spec.items()} == dict(row.request)
            devices = [agent.layout.devices[name] for name in _parts(kernel.spec.values())]
            assert all(device.health is DeviceHealth.HEALTHY for device in devices)
            assert all(_has_memory(device, row) for device in devices)
            assert all(is_of_model(device.model, row.where.models) for device in devices if device.kind == "cuda")


def no_device_is_overbooked(state: Snapshot, plan: Plan) -> None:
    """By the allocation code, and by an independent count per device."""
    layouts = {agent.id: agent.layout for agent in state.agents}
    used = dict(state.used)
    assert all(still_fits(placement, layouts=layouts, used=used) for placement in plan.placements)
    later = after(state, plan)
    for agent in later.agents:
        held = later.used.get(agent.node_id, {})
        for device in agent.layout.devices.values():
            assert held.get(device.id, 0) <= device.budget
            assert device.parent is None or not (held.get(device.id, 0) and held.get(device.parent, 0))


def no_quota_is_exceeded(state: Snapshot, plan: Plan) -> None:
    rows = {row.session_id: row for row in state.queue}
    for quota in state.quotas.values():
        held = Counter[str]()
        for running in (one for one in state.running if _is_under(quota, one)):
            held.update(counted_in(running.kernels))
        for one in (one for one in plan.placements if _is_under(quota, rows[one.session_id])):
            assert quota.gpu_hours_per_month != 0
            need = counted(rows[one.session_id].request, times=len(one.kernels))
            held.update(need)
            assert all(held[name] <= most for name, most in limits(quota.max_slots).items() if name in need)


def what_is_not_explained_is_decided_alike(state: Snapshot, plan: Plan, policy: Policy) -> None:
    brief = decide(state, policy, now_us=NOW_US, seed=0, explains=False)
    unexplained: dict[str, Any] = {"verdicts": {}, "reservation": None}
    assert replace(brief, **unexplained) == replace(plan, **unexplained)
    assert {verdict.reason for verdict in brief.verdicts.values()} <= OF_THE_GATE


def _has_memory(device: Device, row: PendingRow) -> bool:
    return row.gpu_memory_bytes is None or device.kind != "cuda" or device.memory_bytes >= row.gpu_memory_bytes


def _is_under(quota: Quota, row: PendingRow | RunningRow) -> bool:
    names = {QuotaScope.USER: str(row.owner), QuotaScope.PROJECT: str(row.project), QuotaScope.CLUSTER: ""}
    return names[quota.scope] == quota.name


def _parts(amounts: Iterable[Iterable[DeviceId]]) -> list[DeviceId]:
    return [device_id for devices in amounts for device_id in devices]
