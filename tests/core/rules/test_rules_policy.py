"""The policy document: every field reaches the policy, and changes are validated with clear errors."""

from typing import Any, get_type_hints

import pytest
from msgspec.structs import fields, replace

from aliquot.core.allocation.options import AllocationOptions, NumaPolicy, ShareStrategy
from aliquot.core.model.policy import Policy
from aliquot.core.policy_changes import RANGES, amended, check
from aliquot_schema.billing import Prices
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.graphql.cluster.policy_inputs import (
    IdleRulesInput,
    PoolInput,
    PreemptionRulesInput,
    RetriesInput,
    UpdatePolicyInput,
    WeightsInput,
)
from aliquot_schema.ids import PoolId
from aliquot_schema.policies import (
    DURATION_NAMES,
    Backfill,
    Charges,
    PolicyDocument,
    Pool,
    Preemption,
    PreemptScope,
    Retries,
    Weights,
)
from aliquot_schema.resources.units import format_duration
from aliquot_schema.sessions import DEFAULT_POOL

PLAIN = PolicyDocument()
STRANGE = PolicyDocument(
    version=7,
    order="sjf",
    backfill=Backfill.CONSERVATIVE,
    backfill_depth=3,
    placement="pack",
    allocation="fill",
    allow_fragmentation=True,
    numa="interleave",
    weights=Weights(age=5),
    half_life_ms=99_000,
    charges=Charges(cpu_milli=9),
    pools={DEFAULT_POOL: Pool(default_limit_ms=4_000)},
    preemption=Preemption(preempt=PreemptScope.ANY),
    prices=Prices(currency="CHF"),
)


def test_every_field_of_the_document_reaches_the_policy() -> None:
    found = Policy.of(STRANGE)
    for field in fields(Policy):
        if field.name != "allocation":
            assert getattr(found, field.name) == getattr(STRANGE, field.name)
            assert getattr(found, field.name) != getattr(Policy(), field.name)
    assert found.allocation == AllocationOptions(
        strategy=ShareStrategy.FILL, allow_fragmentation=True, numa=NumaPolicy.INTERLEAVE
    )
    assert found.pools[DEFAULT_POOL].default_limit_ms == 4_000


def test_a_change_is_merged_field_by_field() -> None:
    found = amended(PLAIN, {"weights": {"age": 3}, "backfill": "none", "preemption": {"preempt": "any"}})
    assert found == replace(
        PLAIN,
        weights=replace(PLAIN.weights, age=3),
        backfill=Backfill.NONE,
        preemption=replace(PLAIN.preemption, preempt=PreemptScope.ANY),
    )
    assert amended(STRANGE, {}) == STRANGE
    assert amended(PLAIN, {"backfill": "conservative"}).backfill is Backfill.CONSERVATIVE
    pools = {DEFAULT_POOL: Pool(), PoolId("x"): Pool(default_limit_ms=1_000)}
    assert amended(PLAIN, {"pools": pools}).pools == pools


@pytest.mark.parametrize("path", RANGES)
def test_both_ends_of_a_range_are_allowed_and_nothing_beyond(path: str) -> None:
    least, most = RANGES[path]
    for value in (least, most):
        assert _value(_changed(path, value), path) == value
    for value in (least - 1, most + 1):
        with pytest.raises(InvalidRequest) as refusal:
            _changed(path, value)
        name = path.replace("_ms", "")
        numbers = (str(number) for number in (value, least, most))
        if name != path:
            numbers = (
                format_duration(number / 1000) if number >= 0 else f"{number} ms" for number in (value, least, most)
            )
        assert refusal.value.message == "{}: {} is not between {} and {}".format(name, *numbers)
        assert refusal.value.field == name


def test_weight_ranges_keep_scores_within_64_bits_and_prevent_starvation() -> None:
    assert {path: RANGES[path] for path in ("weights.age", "weights.fair", "weights.sjf_age_pct")} == {
        "weights.age": (1, 1_000),
        "weights.fair": (0, 1_000),
        "weights.sjf_age_pct": (1, 100),
    }
    assert all(least >= 1 for path, (least, _) in RANGES.items() if "age" in path or "level" in path)


POOL = Pool()
LONG = "p" * 65


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"backfill": "all"}, "backfill", "backfill: 'all' is unknown; use one of conservative, easy, none"),
        (
            {"backfill": "x" * 70},
            "backfill",
            f"backfill: '{'x' * 64}' is unknown; use one of conservative, easy, none",
        ),
        ({"allocation": "odd"}, "allocation", "allocation: 'odd' is unknown; use one of evenly, fill"),
        ({"numa": "odd"}, "numa", "numa: 'odd' is unknown; use one of interleave, prefer"),
        (
            {"preemption": {"preempt": "all"}},
            "preemption.preempt",
            "preemption.preempt: 'all' is unknown; use one of any, none, preemptible",
        ),
        (
            {"charges": {"accelerator_milli": {"T4": -1}}},
            "charges.accelerators[T4]",
            "charges.accelerators[T4]: -1 is not between 0 and 1000000",
        ),
        (
            {"charges": {"accelerator_milli": {LONG: 1_000_001}}},
            f"charges.accelerators[{LONG[:64]}]",
            f"charges.accelerators[{LONG[:64]}]: 1000001 is not between 0 and 1000000",
        ),
        (
            {"retries": {"wait_ms_first": 300_001}},
            "retries.wait_first",
            "retries: wait_first is longer than wait_max",
        ),
        ({"pools": {}}, "pools", "pools: default is missing; sessions that name no pool use it"),
        *(
            (
                {"pools": {DEFAULT_POOL: POOL, name: POOL}},
                "pools",
                f"pools: {name[:64]!r} is not a name; use 1 to 64 printable characters",
            )
            for name in ("", LONG, " a", "a\n", "a\x07b")
        ),
        (
            {"pools": {DEFAULT_POOL: Pool(default_limit_ms=999)}},
            "pools[default].default_limit",
            "pools[default].default_limit: 0.999 s is not between 1 s and 3660 d",
        ),
        (
            {"pools": {DEFAULT_POOL: Pool(default_limit_ms=316_224_000_001)}},
            "pools[default].default_limit",
            "pools[default].default_limit: 3660 d 0.001 s is not between 1 s and 3660 d",
        ),
    ],
)
def test_an_invalid_policy_change_is_refused_with_field_and_message(
    changes: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        amended(PLAIN, changes)
    assert (refusal.value.message, refusal.value.field) == (message, field)


def test_policy_values_at_the_limits_are_accepted() -> None:
    names = {DEFAULT_POOL: POOL, PoolId("p" * 64): POOL, PoolId("a"): Pool(default_limit_ms=1_000)}
    prices = {"free": 0, "dear": 1_000_000}
    charges, retries = Charges(accelerator_milli=prices), Retries(wait_ms_first=300_000)
    check(replace(PLAIN, pools=names, charges=charges, retries=retries))


def test_an_unknown_policy_field_raises_an_assertion_error() -> None:
    with pytest.raises(AssertionError, match=r"weights\.speed is no field of the policy"):
        amended(PLAIN, {"weights": {"speed": 1}})
    with pytest.raises(AssertionError, match=r"^speed is no field"):
        amended(PLAIN, {"speed": 1})


def _changed(path: str, value: int) -> PolicyDocument:
    changes: Any = value
    for name in reversed(path.split(".")):
        changes = {name: changes}
    if path == "retries.wait_ms_first":
        changes["retries"]["wait_ms_max"] = RANGES[path][1]
    if path == "retries.wait_ms_max":
        changes["retries"]["wait_ms_first"] = 1
    return amended(PLAIN, changes)


def _value(document: PolicyDocument, path: str) -> Any:
    value: Any = document
    for name in path.split("."):
        value = getattr(value, name)
    return value


def test_the_duration_names_are_all_duration_fields_of_the_policy_inputs() -> None:
    kinds = [UpdatePolicyInput, WeightsInput, PoolInput, PreemptionRulesInput, IdleRulesInput, RetriesInput]
    hints = [item for kind in kinds for item in get_type_hints(kind).items()]
    assert {name for name, kind in hints if kind == float | None} == DURATION_NAMES
