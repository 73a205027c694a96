"""The head's reservation is kept in every pass, and more free devices never delay it."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.allocation.occupancy import occupancy_on
from aliquot.core.model.plan import Placement, Plan, Reservation, still_fits
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import RunningRow, Snapshot
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.expected_ends import expected_end_us
from aliquot_schema.ids import SessionId
from aliquot_schema.policies import Backfill, Pool, Preemption, PreemptScope
from aliquot_schema.reasons import Reason
from aliquot_schema.sessions import DEFAULT_POOL
from core_cluster import NOW_US, after
from core_crowds import crowds
from core_effort import examples
from core_policies import each, every_promise, policies
from core_simulation import ClusterSimulation
from core_simulations import simulations
from core_states import states

PLAIN = states(with_quotas=False) | crowds()
PEACE = Preemption(preempt=PreemptScope.NONE)
"""Preempted sessions do not end by themselves, and preempting ones pass the head."""


@every_promise
@examples(4)
@given(data=st.data())
def test_a_head_never_starts_later_than_it_was_promised(policy: Policy, data: st.DataObject) -> None:
    """Sessions end before their limits, and others arrive. An overtaken session is no longer the head."""
    simulation = data.draw(simulations(replace(policy, preemption=PEACE), plain=True))
    promised: Reservation | None = None

    def look(plan: Plan) -> None:
        nonlocal promised
        now = next(iter(_promises(plan)), None)
        if promised is not None and not _is_overtaken(promised.session_id, simulation, plan):
            at_us = _at(promised)
            if any(placement.session_id == promised.session_id for placement in plan.placements):
                assert simulation.now_us <= at_us
            else:
                assert now is not None
                assert now.session_id == promised.session_id
                assert _at(now) <= at_us
        promised = now

    simulation.run(look)


def _is_overtaken(session_id: SessionId, simulation: ClusterSimulation, plan: Plan) -> bool:
    """Whether a startable session is ahead of it now; those ahead at its reservation have all started."""
    names = [row.session_id for row in simulation.ordered_queue(plan)]
    before = names[: names.index(session_id)]
    return any(name not in plan.verdicts or plan.verdicts[name].reason is not Reason.NO_AGENT for name in before)


@each(policies(backfills=[Backfill.EASY]))
@examples(5)
@given(state=PLAIN)
def test_the_head_starts_at_its_reservation_if_all_sessions_keep_their_time_limits(
    policy: Policy, state: Snapshot
) -> None:
    pools = {DEFAULT_POOL: Pool(default_limit_ms=50_000)}
    plan = decide(state, replace(policy, preemption=PEACE, pools=pools), now_us=NOW_US, seed=0)
    promise = plan.reservation
    if promise is None:
        return
    at_us = _at(promise)
    limits = {row.session_id: 50_000 if row.limit_ms is None else row.limit_ms for row in state.queue}
    late = [one for one in plan.placements if NOW_US + limits[one.session_id] * 1000 > at_us]
    left = _without(state, [row for row in state.running if expected_end_us(row, now_us=NOW_US) <= at_us])
    held = after(left, replace(plan, placements=tuple(late)))
    layouts = {agent.id: agent.layout for agent in state.agents}
    version = next(row.version for row in state.queue if row.session_id == promise.session_id)
    placement = Placement(session_id=promise.session_id, version=version, kernels=promise.kernels)
    assert still_fits(placement, layouts=layouts, used=dict(held.used))


@every_promise
@examples(4)
@given(state=PLAIN, data=st.data())
def test_more_free_devices_never_make_the_head_start_later(
    policy: Policy, state: Snapshot, data: st.DataObject
) -> None:
    peaceful = replace(policy, preemption=PEACE)
    before = _first(state, peaceful)
    if before is None or not state.running:
        return
    gone = data.draw(st.lists(st.sampled_from(state.running), max_size=3, unique_by=lambda row: row.session_id))
    alone = replace(state, queue=[row for row in state.queue if row.session_id == before.session_id])
    freer = decide(_without(alone, gone), peaceful, now_us=NOW_US, seed=0)
    starts = {placement.session_id for placement in freer.placements}
    (now,) = [one for one in _promises(freer) if one.session_id not in starts] or [None]
    assert now is None or _at(now) <= _at(before)
    assert now is not None or before.session_id in starts


@every_promise
@examples(3)
@given(state=PLAIN)
def test_sessions_that_end_sooner_never_make_the_head_start_later(policy: Policy, state: Snapshot) -> None:
    peaceful = replace(policy, preemption=PEACE)
    before = _first(state, peaceful)
    if before is None:
        return
    # A planned end in the past means that a session is overdue, so it ends later.
    sooner = tuple(
        replace(row, ends_us=min(row.ends_us, max(row.ends_us - 7_000_000, NOW_US + 1))) for row in state.running
    )
    alone = [row for row in state.queue if row.session_id == before.session_id]
    plan = decide(replace(state, queue=alone, running=sooner), peaceful, now_us=NOW_US, seed=0)
    (now,) = _promises(plan)
    assert _at(now) <= _at(before)


def _promises(plan: Plan) -> Iterable[Reservation]:
    return plan.promises[:1] or ((plan.reservation,) if plan.reservation is not None else ())


def _at(promise: Reservation) -> int:
    assert promise.at_us is not None
    return promise.at_us


def _first(state: Snapshot, policy: Policy) -> Reservation | None:
    """The head's reservation when it is alone, so that no session started with it delays it."""
    promise = next(iter(_promises(decide(state, policy, now_us=NOW_US, seed=0))), None)
    alone = [row for row in state.queue if promise is not None and row.session_id == promise.session_id]
    return next(iter(_promises(decide(replace(state, queue=alone), policy, now_us=NOW_US, seed=0))), None)


def _without(state: Snapshot, gone: Iterable[RunningRow]) -> Snapshot:
    devices = {agent.id: agent.layout.devices for agent in state.agents}
    used = {node_id: dict(held) for node_id, held in state.used.items()}
    names = [row.session_id for row in gone]
    for row in gone:
        for kernel in row.kernels:
            for device_id, amount in occupancy_on((kernel.spec,), devices[kernel.agent_id]).items():
                used[kernel.node_id][device_id] -= amount
    return replace(state, used=used, running=tuple(row for row in state.running if row.session_id not in names))
