"""What is true of every plan, over random clusters and queues."""

import copy
import random
from collections import defaultdict
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from aliquot.core.decide import decide
from aliquot.core.plan import Plan
from aliquot.core.policy import Policy
from aliquot.core.recheck import still_fits
from aliquot.core.snapshot import AgentRow, PendingRow, Snapshot
from aliquot_schema.devices import Device, DeviceHealth
from aliquot_schema.errors import AllocationRefused, InvalidRequest
from aliquot_schema.ids import DeviceId, NodeId
from aliquot_schema.reasons import Reason
from aliquot_schema.states import SessionState
from core_cluster import NOW_US, after, free_map, shuffled
from core_effort import examples
from core_plan_probe import encoded
from core_strategies import snapshots

tuned = examples(60)
LACKING = frozenset({Reason.INSUFFICIENT, Reason.FRAGMENTED, Reason.GANG_INCOMPLETE})


def plan_of(state: Snapshot) -> Plan:
    return decide(state, Policy(), now_us=NOW_US, seed=0)


@tuned
@given(snapshots())
def test_every_pending_session_gets_exactly_one_answer(state: Snapshot) -> None:
    plan = plan_of(state)
    answers = [placement.session_id for placement in plan.placements]
    answers += [*plan.failures, *plan.verdicts]
    assert sorted(answers) == sorted(row.session_id for row in state.queue)


@tuned
@given(snapshots())
def test_no_device_is_given_beyond_its_budget_nor_with_its_parent(state: Snapshot) -> None:
    used = {node_id: defaultdict(int, held) for node_id, held in after(state, plan_of(state)).used.items()}
    devices = {(agent.node_id, device.id): device for agent in state.agents for device in agent.layout.devices.values()}
    for (node_id, device_id), device in devices.items():
        held = used.get(node_id, defaultdict(int))
        assert held[device_id] <= device.budget
        assert device.parent is None or not (held[device_id] and held[device.parent])


@tuned
@given(snapshots())
def test_a_session_gets_all_its_ranks_and_each_exactly_what_was_asked(state: Snapshot) -> None:
    rows = {row.session_id: row for row in state.queue}
    agents = {agent.id: agent for agent in state.agents}
    for placement in plan_of(state).placements:
        row = rows[placement.session_id]
        assert placement.version == row.version
        assert [kernel.rank for kernel in placement.kernels] == list(range(row.cluster_size))
        for kernel in placement.kernels:
            agent = agents[kernel.agent_id]
            assert agent.is_open
            assert agent.id not in row.excluded_agents
            assert kernel.node_id == agent.node_id
            given_amounts = {slot: sum(amounts.values()) for slot, amounts in kernel.spec.items()}
            assert given_amounts == dict(row.request)
            assert all(_may_be_given(agent, row, part) for part in _parts(kernel.spec.values()))


@tuned
@given(snapshots())
def test_only_those_start_that_nothing_of_their_own_holds_back(state: Snapshot) -> None:
    rows = {row.session_id: row for row in state.queue}
    for placement in plan_of(state).placements:
        row = rows[placement.session_id]
        assert row.state is SessionState.QUEUED
        assert row.not_before_us is None or row.not_before_us <= NOW_US


@tuned
@given(snapshots(), st.integers())
def test_a_plan_is_the_same_bytes_whatever_the_order_of_the_collections(state: Snapshot, seed: int) -> None:
    mixed = shuffled(state, random.Random(seed))
    assert encoded(plan_of(mixed)) == encoded(plan_of(state))


@tuned
@given(snapshots())
def test_a_pass_changes_nothing_of_its_input(state: Snapshot) -> None:
    before = copy.deepcopy(state)
    plan_of(state)
    assert state == before


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
def test_the_first_in_line_always_fits_an_empty_cluster(state: Snapshot) -> None:
    plan = plan_of(Snapshot(revision=1, agents=state.agents, used={}, queue=state.queue))
    if not plan.placements:
        assert all(verdict.reason not in LACKING for verdict in plan.verdicts.values())


@tuned
@given(snapshots(share_nodes=False))
def test_who_stands_aside_for_want_of_an_agent_would_not_fit_an_empty_cluster(state: Snapshot) -> None:
    plan = plan_of(state)
    empty = Snapshot(revision=1, agents=state.agents, used={}, queue=())
    for row in state.queue:
        verdict = plan.verdicts.get(row.session_id)
        if verdict is not None and verdict.reason is Reason.NO_AGENT:
            assert _kernels_that_fit(row, empty) < row.cluster_size


@tuned
@given(snapshots())
def test_a_plan_holds_on_the_state_it_was_made_for_and_not_once_its_devices_are_taken(state: Snapshot) -> None:
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


def _may_be_given(agent: AgentRow, row: PendingRow, device_id: DeviceId) -> bool:
    device = agent.layout.devices[device_id]
    has_memory = row.gpu_memory_bytes is None or device.kind != "cuda" or device.memory_bytes >= row.gpu_memory_bytes
    return device.health is DeviceHealth.HEALTHY and has_memory


def _kernels_that_fit(row: PendingRow, state: Snapshot) -> int:
    """Counted agent by agent, without the code that places."""
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
