"""The same input gives the same bytes in any order, in any process, and with any cache."""

import random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.model.plan import Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import Queue
from aliquot.core.model.snapshot import Snapshot
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.decide import decide
from core_cluster import NOW_US, shuffled
from core_effort import examples
from core_plan_probe import encoded
from core_policies import every_policy, every_rule, some_placement
from core_simulations import simulations
from core_states import states


@every_policy
@examples(3)
@given(state=states(), seed=st.integers())
def test_a_plan_has_the_same_bytes_in_any_input_order_with_and_without_a_cache(
    policy: Policy, state: Snapshot, seed: int
) -> None:
    cold = encoded(decide(state, policy, now_us=NOW_US, seed=0))
    mixed = shuffled(state, random.Random(seed))
    assert encoded(decide(mixed, policy, now_us=NOW_US, seed=0)) == cold
    known = PassCache()
    half = Queue.of(list(state.queue)[::2])
    decide(replace(state, queue=half), policy, now_us=NOW_US, seed=0, known=known)
    warm = replace(state, queue=half.changed(joined=list(state.queue)[1::2]))
    assert encoded(decide(warm, policy, now_us=NOW_US, seed=0, known=known)) == cold


@every_rule
@examples(8)
@given(placement=some_placement, data=st.data())
def test_in_a_whole_simulated_run_plans_are_the_same_with_and_without_a_cache(
    policy: Policy, placement: str, data: st.DataObject
) -> None:
    """Starts, ends, evictions, arrays, fallbacks and quotas change the state; plans depend neither on the cache
    nor on the order of the collections."""
    simulation = data.draw(simulations(replace(policy, placement=placement)))
    dice = random.Random(data.draw(st.integers()))

    def look(plan: Plan) -> None:
        fresh = shuffled(simulation.snapshot(), dice)
        assert encoded(decide(fresh, simulation.policy, now_us=simulation.now_us, seed=7)) == encoded(plan)

    simulation.run(look)
