"""Every policy as parameters: order x backfill x placement."""

from collections.abc import Iterable
from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from aliquot.core.model.policy import Policy
from aliquot.core.placement.strategies import STRATEGIES
from aliquot.core.scheduler.ordering import ORDERS
from aliquot_schema.policies import Backfill, Preemption, PreemptScope
from core_effort import SHORT
from long_tests import IS_LONG

RULES: Final = Preemption(preempt=PreemptScope.ANY, run_ms_min=5_000, preemptions_max=2, grace_ms=3_000)
BACKFILLS: Final = tuple(Backfill)
PROMISING: Final = (Backfill.EASY, Backfill.CONSERVATIVE)
ORDER_NAMES: Final = tuple(sorted(set(ORDERS) - {"gang"}))
"""`gang` is an alias of `fcfs`, as its own test checks."""


def policies(*, backfills: Iterable[Backfill] = BACKFILLS) -> list[Policy]:
    """Every policy; with one placement under the mutation profile, as strategies are not mutated."""
    is_full = settings.default is None or settings.default.max_examples >= SHORT
    placements = sorted(STRATEGIES) if is_full else ["least_waste"]
    return [
        Policy(order=order, backfill=backfill, placement=placement, preemption=RULES)
        for order in ORDER_NAMES
        for backfill in backfills
        for placement in placements
    ]


def each(found: Iterable[Policy]) -> pytest.MarkDecorator:
    """One test per policy."""
    return pytest.mark.parametrize("policy", list(found), ids=lambda one: f"{one.order}-{one.backfill}-{one.placement}")


def paired(found: list[Policy]) -> list[Policy]:
    """Half of them, covering every pair of order, backfill and placement; all in long runs."""
    is_usual = settings.default is None or settings.default.max_examples == SHORT
    if IS_LONG or not is_usual:
        return found
    placements = sorted(STRATEGIES)
    return [
        one
        for one in found
        if (ORDER_NAMES.index(one.order) + BACKFILLS.index(one.backfill) + placements.index(one.placement)) % 2 == 0
    ]


every_policy = each(paired(policies()))
every_rule = each(one for one in policies() if one.placement == "least_waste")
"""Every order and backfill; the test draws the placement."""
every_promise = each(paired(policies(backfills=PROMISING)))
every_order = pytest.mark.parametrize("order", ORDER_NAMES)
some_placement = st.sampled_from(sorted(STRATEGIES))
