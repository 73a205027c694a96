"""A stored policy with an earlier release's default weights gets today's, once, and the audit says so."""

import pytest
from msgspec.structs import replace

from aliquot.service.admin.policy import BY_UPGRADE, Policies, renew_weights
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.policies import DAY_MS, FIXED_AGE_WEIGHTS, PolicyDocument, Weights
from service_bench import agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio


async def stored(on: Stage, weights: Weights) -> PolicyDocument:
    """The policy stored by an earlier release."""

    def change(draft: UnitOfWork) -> PolicyDocument:
        return draft.put(replace(draft.policy(), weights=weights, order="relative_age"), "changed")

    return await on.journal.transact(change, actor="ann")


async def test_old_default_weights_are_replaced_by_the_new_defaults_once() -> None:
    assert Weights(age=1, age_unit_ms=7 * DAY_MS, fair=1, short=2, priority=1) == FIXED_AGE_WEIGHTS
    async with stage([agent("a", devices=1)]) as on:
        before = await stored(on, FIXED_AGE_WEIGHTS)
        assert await renew_weights(on.journal, on.clock)
        after = on.state.policy
        assert after == replace(before, version=after.version, weights=Weights(), changed_us=after.changed_us)
        assert (after.version, after.weights.age, after.weights.short) == (before.version + 1, 4, 8)
        changes = [event for event in await on.events() if event.kind == "policy.changed"]
        assert changes[-1].actor == BY_UPGRADE
        assert not await renew_weights(on.journal, on.clock)


@pytest.mark.parametrize(
    "weights", [Weights(), replace(FIXED_AGE_WEIGHTS, fair=2), replace(FIXED_AGE_WEIGHTS, age_unit_ms=DAY_MS)]
)
async def test_custom_weights_are_not_replaced(weights: Weights) -> None:
    async with stage([agent("a", devices=1)]) as on:
        before = await stored(on, weights)
        assert not await renew_weights(on.journal, on.clock)
        assert on.state.policy == before


async def test_old_default_weights_set_under_this_release_are_not_replaced() -> None:
    async with stage([agent("a", devices=1)]) as on:
        policies = Policies(state=on.state, journal=on.journal, clock=on.clock)
        await policies.update_policy(CALLER, {"weights": {"age": 1, "fair": 1, "short": 2, "priority": 1}}, None)
        assert not await renew_weights(on.journal, on.clock)
        assert on.state.policy.weights.age == 1
