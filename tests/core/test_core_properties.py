"""Properties of the simplest policy on random clusters and queues, checked without the placement code."""

import copy
from collections.abc import Iterable

from hypothesis import given

from aliquot.core.model.plan import Plan, still_fits
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, Snapshot
from aliquot.core.scheduler.decide import decide
from aliquot_schema.errors import AllocationRefused, InvalidRequest
from aliquot_schema.ids import DeviceId, NodeId
from aliquot_schema.reasons import Reason
from aliquot_schema.resources.devices import Device
from core_cluster import NOW_US, after, free_map
from core_effort import examples
from core_strategies import snapshots

tuned = examples(30)
LACKING = frozenset({Reason.INSUFFICIENT, Reason.FRAGMENTED, Reason.GANG_INCOMPLETE})


def plan_of(state: Snapshot) -> Plan:
    return decide(state, Policy(), now_us=NOW_US, seed=0)


@tuned
@given(snapshots(share_nodes=False))
def test_the_head_is_left_waiting_only_if_it_does_not_fit(state: Snapshot) -> None:
    plan = plan_of(state)
    rows = {row.session_id: row for row in state.queue}
    heads = [session_id for session_id, verdict in plan.verdicts.items() if verdict.reason in LACKING]
    behind = [verdict for verdict in plan.verdicts.values() if verdict.reason is Reason.BEHIND_HEAD]
    assert len(heads) <= 1
    assert all(list(verdict.evidence.blocked_by) == heads for verdict in behind)
    for session_id in heads:
        fits = _kernels_that_fit(rows[session_id], after(state, plan))
        assert fits < rows[session_id].cluster_size
        assert plan.verdicts[session_id].evidence.fits_kernels == (fits or None)


@tuned
@given(snapshots())
def test_the_first_eligible_session_always_fits_an_empty_cluster(state: Snapshot) -> None:
    plan = plan_of(Snapshot(revision=1, agents=state.agents, used={}, queue=state.queue))
    if not plan.placements:
        assert all(verdict.reason not in LACKING for verdict in plan.verdicts.values())


@tuned
@given(snapshots(share_nodes=False))
def test_a_session_without_a_fitting_agent_would_not_fit_an_empty_cluster(state: Snapshot) -> None:
    plan = plan_of(state)
    empty = Snapshot(revision=1, agents=state.agents, used={}, queue=())
    for row in state.queue:
        verdict = plan.verdicts.get(row.session_id)
        if verdict is not None and verdict.reason is Reason.NO_AGENT:
            assert _kernels_that_fit(row, empty) < row.cluster_size


@tuned
@given(snapshots())
def test_a_plan_fits_its_own_state_and_not_one_with_its_devices_taken(state: Snapshot) -> None:
    layouts = {agent.id: agent.layout for agent in state.agents}
    plan = plan_of(state)
    used = dict(state.used)
    for placement in plan.placements:
        assert still_fits(placement, layouts=layouts, used=used)
    assert used == after(state, plan).used or not plan.placements
    for placement in plan.placements:
        for kernel in placement.kernels:
            for device_id in _parts(kernel.spec.values()):
                full = _filled(state, kernel.node_id, layouts[kernel.agent_id].devices[device_id])
                untouched = copy.deepcopy(full)
                assert not still_fits(placement, layouts=layouts, used=full)
                assert full == untouched
        assert not still_fits(placement, layouts={}, used=dict(state.used))


def _filled(state: Snapshot, node_id: NodeId, device: Device) -> dict[NodeId, dict[DeviceId, int]]:
    used = {known: dict(held) for known, held in state.used.items()}
    used.setdefault(node_id, {})[device.id] = device.budget
    return used


def _parts(amounts: Iterable[Iterable[DeviceId]]) -> list[DeviceId]:
    return [device_id for devices in amounts for device_id in devices]


def _kernels_that_fit(row: PendingRow, state: Snapshot) -> int:
    """Counted per agent, without the placement code."""
    options = Policy().allocation
    options = type(options)(gpu_memory_bytes=row.gpu_memory_bytes)
    found = 0
    for agent in state.agents:
        if not agent.is_open or agent.id in row.excluded_agents:
            continue
        devices = free_map(agent, state)
        while found < row.cluster_size:
            try:
                devices = devices.apply(devices.allocate(dict(row.request), options=options))
            except (AllocationRefused, InvalidRequest):
                break
            found += 1
    return found
