"""Properties of extensions on any state, against passes with and without the later time limit."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import Snapshot
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.extensions import delays, extended, reserving_all
from aliquot_schema.ids import SessionId
from aliquot_schema.policies import Backfill
from aliquot_schema.reasons import Reason
from allocation_devices import gpus
from core_cluster import NOW_US, on
from core_effort import examples
from core_plan_probe import encoded
from core_policies import policies
from core_states import states
from ordering_scenes import busy, runs

SECOND_US = 1_000_000


@st.composite
def asked(draw: st.DrawFn) -> Snapshot:
    """A state with one running session that requests more time."""
    state = draw(states())
    able = [row.session_id for row in state.running if not row.is_leaving and row.ends_us > NOW_US]
    if not able or draw(st.booleans()):
        agent, name = on("z", gpus(2)), SessionId("zz")
        held = runs(name, agent, {"cuda.device": {"cuda0": 1, "cuda1": 1}}, ends_in_s=draw(st.sampled_from([5, 60])))
        used = busy([agent], [held], []).used
        state = replace(
            state, agents=(*state.agents, agent), running=(*state.running, held), used={**state.used, **used}
        )
        able = [name]
    name = draw(st.sampled_from(able))
    more_us = draw(st.sampled_from([1, 20, 60, 7200])) * SECOND_US
    running = tuple(
        replace(row, limit_us=row.ends_us, asks_limit_us=row.ends_us + more_us) if row.session_id == name else row
        for row in state.running
    )
    return replace(state, running=running)


def without_request(state: Snapshot) -> Snapshot:
    return replace(state, running=tuple(replace(row, asks_limit_us=None) for row in state.running))


@examples(80)
@given(asked(), st.sampled_from(policies()), st.sampled_from(Backfill))
def test_an_extension_is_granted_if_and_only_if_no_session_starts_later(
    state: Snapshot, policy: Policy, backfill: Backfill
) -> None:
    policy = replace(policy, backfill=backfill)
    (decision,) = decide(state, policy, now_us=NOW_US, seed=1).extensions
    before = without_request(state)
    after = extended(before, decision.session_id, limit_us=decision.limit_us)
    later, stopped, quota = [], set(), False
    for rules in (policy, reserving_all(policy)):
        first, then = (decide(one, rules, now_us=NOW_US, seed=1) for one in (before, after))
        later += delays(first.starts_us(now_us=NOW_US), then.starts_us(now_us=NOW_US))
        stopped |= {one.session_id for one in then.evictions} - {one.session_id for one in first.evictions}
        quota |= any(
            one.reason in (Reason.QUOTA, Reason.DEPENDENCY, Reason.ARRAY_LIMIT) for one in first.verdicts.values()
        )
    if decision.refusal is None:
        assert not later
        assert not stopped
    else:
        assert later or stopped or quota


@examples(40)
@given(asked(), st.sampled_from(policies()))
def test_the_rest_of_a_pass_plans_from_the_state_after_its_extensions(state: Snapshot, policy: Policy) -> None:
    plan = decide(state, policy, now_us=NOW_US, seed=1)
    (decision,) = plan.extensions
    after = without_request(state)
    if decision.refusal is None:
        after = extended(after, decision.session_id, limit_us=decision.limit_us)
    expected = replace(decide(after, policy, now_us=NOW_US, seed=1), extensions=plan.extensions)
    assert encoded(plan) == encoded(expected)
