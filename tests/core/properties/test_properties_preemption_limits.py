"""Properties of preemption under any policy, on states with elastic gangs, checkpoints and preempted sessions."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import Snapshot
from aliquot.core.scheduler.decide import decide
from aliquot_schema.policies import Backfill, Preemption, PreemptScope, Weights
from aliquot_schema.reasons import Reason
from aliquot_schema.sessions import PreemptionCause, Topology
from core_cluster import NOW_US
from core_effort import examples
from core_policies import ORDER_NAMES, some_placement
from core_states import states

LIMITED = frozenset({PreemptionCause.PRIORITY, PreemptionCause.ORDER, PreemptionCause.QUOTA, PreemptionCause.GROW})
"""Causes that keep to the limits of the policy."""


@st.composite
def any_policies(draw: st.DrawFn) -> Policy:
    """Every scope of preemption, with and without a bound on waits."""
    return Policy(
        order=draw(st.sampled_from(ORDER_NAMES)),
        backfill=draw(st.sampled_from(Backfill)),
        placement=draw(some_placement),
        weights=replace(Weights(), wait_bound_ms=draw(st.sampled_from([0, 1_000, 60_000]))),
        preemption=Preemption(
            preempt=draw(st.sampled_from(PreemptScope)),
            run_ms_min=draw(st.sampled_from([0, 500, 5_000, 10_000_000])),
            preemptions_max=2,
            grace_ms=3_000,
            restart_ms=draw(st.sampled_from([0, 1_000])),
        ),
    )


@st.composite
def saving_states(draw: st.DrawFn) -> Snapshot:
    """Any state, where sessions are elastic, save their work, or were preempted for another one."""
    state = draw(states())
    names = [row.session_id for row in state.queue]
    saves = st.sampled_from([None, 0, 60_000])
    kept = st.sampled_from([0, 0, 700_000])
    queue = []
    for row in state.queue:
        is_whole = row.tasks is not None or row.is_immediate or row.where.topology is Topology.REQUIRE
        most = None if is_whole or draw(st.booleans()) else row.cluster_size + draw(st.integers(1, 4))
        first = draw(st.sampled_from([None, None, *names]))
        fields = {"kernels_max": most, "preempted_for": first}
        queue.append(replace(row, kept_ms=draw(kept), checkpoint_ms=draw(saves), **fields))
    running = [
        replace(held, kept_ms=draw(kept), checkpoint_ms=draw(saves), grace_ms=draw(st.sampled_from([None, 99_000])))
        for held in state.running
    ]
    return replace(state, queue=tuple(queue), running=tuple(running))


@examples(150)
@given(saving_states(), any_policies())
def test_preemption_keeps_to_the_limits_of_the_policy(state: Snapshot, policy: Policy) -> None:
    plan = decide(state, policy, now_us=NOW_US, seed=0)
    rules, rows = policy.preemption, {row.session_id: row for row in state.queue}
    running = {held.session_id: held for held in state.running}
    assert plan.wake_at_us is None or plan.wake_at_us > NOW_US
    assert len({eviction.session_id for eviction in plan.evictions}) == len(plan.evictions)
    for eviction in plan.evictions:
        held = running[eviction.session_id]
        assert not held.is_leaving
        if eviction.cause in LIMITED:
            assert held.preemptions < rules.preemptions_max
            assert held.started_us is not None
            assert NOW_US - held.started_us >= rules.run_ms_min * 1000
        if eviction.by_session is None:
            continue
        assert rules.preempt is not PreemptScope.NONE
        assert plan.verdicts[eviction.by_session].reason is Reason.MAKING_ROOM
        if eviction.cause is PreemptionCause.PRIORITY:
            assert held.priority < rows[eviction.by_session].priority
        if eviction.cause is not PreemptionCause.QUOTA:
            assert held.is_preemptible or (policy.order == "priority" and rules.preempt is PreemptScope.ANY)
