"""Work conserving: no session waits that fits, may start, and delays no reservation."""

from collections.abc import Iterable

import numpy as np
from hypothesis import given
from msgspec.structs import replace

from aliquot.core.allocation.device_map import DeviceMap
from aliquot.core.model.plan import KernelPlacement, Reservation
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import Queue
from aliquot.core.model.snapshot import PendingRow, Snapshot
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.decide import decide, order_inputs
from aliquot.core.scheduler.ordering import in_order, order_named
from aliquot_schema.errors import AllocationRefused, InvalidRequest
from aliquot_schema.policies import Backfill
from aliquot_schema.reasons import Reason
from core_cluster import NOW_US, after
from core_crowds import crowds
from core_effort import examples
from core_policies import each, every_policy, policies
from core_states import states
from core_textbook import Job, Outcome, Timeline, easy
from ordering_scenes import SECOND_US

LACKING = frozenset({Reason.INSUFFICIENT, Reason.FRAGMENTED, Reason.GANG_INCOMPLETE})


@every_policy
@examples(4)
@given(state=states(with_quotas=False))
def test_no_session_waits_that_fits_and_delays_no_reservation(policy: Policy, state: Snapshot) -> None:
    plan = decide(state, policy, now_us=NOW_US, seed=0)
    told = {name: verdict for name, verdict in plan.verdicts.items() if verdict.reason is Reason.RESERVED}
    behind = [verdict for verdict in plan.verdicts.values() if verdict.reason is Reason.BEHIND_HEAD]
    if policy.backfill is Backfill.NONE:
        heads = [name for name, verdict in plan.verdicts.items() if verdict.reason in LACKING]
        assert len(heads) <= 1
        assert all(list(verdict.evidence.blocked_by) == heads for verdict in behind)
        assert plan.reservation is None
        assert not told
        return
    assert not behind
    promised = plan.reservation.session_id if plan.reservation is not None else None
    assert all(verdict.evidence.blocked_by == (promised,) for verdict in told.values())
    if plan.evictions or any(verdict.reason is Reason.MAKING_ROOM for verdict in plan.verdicts.values()):
        return
    # Without reservations, only sessions that were blocked by one start.
    left = [row for row in state.queue if row.session_id in plan.verdicts]
    for one in left:
        if plan.verdicts[one.session_id].reason in LACKING:
            assert _kernels_alone(one, after(state, plan)) < one.cluster_size
    unpromised = replace(after(state, plan), queue=[row for row in left if row.tasks is None], running=())
    again = decide(unpromised, policy, now_us=NOW_US, seed=0)
    assert {placement.session_id for placement in again.placements} <= set(told)


def _kernels_alone(waits: PendingRow, state: Snapshot) -> int:
    """How many kernels fit, counted per agent, without the placement code."""
    options = replace(Policy().allocation, gpu_memory_bytes=waits.gpu_memory_bytes, models=waits.where.models)
    found = 0
    used = dict(state.used)
    for agent in state.agents:
        if (
            not agent.is_open
            or agent.id in waits.excluded_agents
            or dict(waits.where.labels).items() - agent.labels.items()
        ):
            continue
        while found < waits.cluster_size:
            devices = DeviceMap(agent.layout, used.get(agent.node_id, {}))
            try:
                used[agent.node_id] = devices.apply(devices.allocate(dict(waits.request), options=options)).used
            except (AllocationRefused, InvalidRequest):
                break
            found += 1
    return found


def in_line(state: Snapshot, policy: Policy) -> list[PendingRow]:
    """The waiting rows in the order of the policy."""
    rows = list(state.queue)
    queue = Queue.of(tuple(rows))
    ready = np.ones(len(rows), dtype=np.int64)
    inputs, _ = order_inputs(state, policy, queue=queue, ready=ready, now_us=NOW_US, cache=PassCache())
    return [rows[place] for place in in_order(order_named(policy.order), inputs)]


@each(policies(backfills=[Backfill.EASY]))
@examples(8)
@given(state=crowds())
def test_easy_backfill_equals_the_textbook_algorithm_on_equal_devices(policy: Policy, state: Snapshot) -> None:
    plan = decide(state, policy, now_us=NOW_US, seed=0)
    running = [
        Job(name=one.session_id, size=one.milli // 1000, lasts=(one.ends_us - NOW_US) // SECOND_US)
        for one in state.running
    ]
    queue = [
        Job(name=one.session_id, size=one.request[0][1], lasts=(one.limit_ms or 0) // 1000)
        for one in in_line(state, policy)
    ]
    promise = plan.reservation
    found = Outcome(
        starts=tuple(str(placement.session_id) for placement in plan.placements),
        promise=None if promise is None else (promise.session_id, _seconds(promise)),
    )
    assert found == easy(8, running=running, queue=queue)


@each(policies(backfills=[Backfill.CONSERVATIVE]))
@examples(8)
@given(state=crowds())
def test_conservative_backfill_gives_each_session_the_first_time_left_by_earlier_ones(
    policy: Policy, state: Snapshot
) -> None:
    plan = decide(state, policy, now_us=NOW_US, seed=0)
    given_to = {one.session_id: (0, one.kernels) for one in plan.placements}
    given_to |= {one.session_id: (_seconds(one), one.kernels) for one in plan.promises}
    timeline = Timeline([f"cuda{number}" for number in range(8)])
    for one in state.running:
        timeline.take(_devices(one.kernels), 0, (one.ends_us - NOW_US) // SECOND_US)
    for waits in in_line(state, policy):
        at, kernels = given_to[waits.session_id]
        lasts = (waits.limit_ms or 0) // 1000
        assert at == timeline.first(waits.request[0][1], lasts=lasts)
        timeline.take(_devices(kernels), at, at + lasts)


def _devices(kernels: Iterable[KernelPlacement]) -> list[str]:
    return [str(device) for kernel in kernels for devices in kernel.spec.values() for device in devices]


def _seconds(promise: Reservation) -> int:
    assert promise.at_us is not None
    return (promise.at_us - NOW_US) // SECOND_US
