"""Amounts as text, and the algebra of `ResourceSlot`."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from aliquot_schema.errors import InvalidAmount, NotMultipleOfQuantum
from aliquot_schema.ids import SlotName
from aliquot_schema.resources.slots import (
    AMOUNT_MAX,
    SLOT_NAME,
    UNLIMITED,
    Amount,
    ResourceSlot,
    format_amount,
    is_accelerator,
    is_size,
    parse_amount,
)

settings = hypothesis_settings(deadline=None)
NAMES = st.sampled_from(["cpu", "mem", "cuda.device", "cuda.shares", "rocm.shares", "tpu.mem"]).map(SlotName)
NUMBERS = st.integers(0, 10**15)
AMOUNTS: st.SearchStrategy[Amount] = NUMBERS | st.just(UNLIMITED)
FINITE = st.dictionaries(NAMES, NUMBERS).map(ResourceSlot)
SLOTS = st.dictionaries(NAMES, AMOUNTS).map(ResourceSlot)
SMALL = st.dictionaries(NAMES, st.integers(0, 2) | st.just(UNLIMITED)).map(ResourceSlot)
NOTHING = ResourceSlot()


@settings
@given(SLOTS, NAMES)
def test_a_missing_slot_is_zero(slots: ResourceSlot, name: SlotName) -> None:
    without = ResourceSlot({slot: amount for slot, amount in slots.items() if slot != name})
    zero = ResourceSlot({**without, name: 0})
    assert without[name] == 0
    assert (zero, hash(zero), repr(zero), list(zero)) == (without, hash(without), repr(without), list(without))
    assert zero + slots == without + slots
    assert (zero <= slots, slots <= zero) == (without <= slots, slots <= without)


@settings
@given(SLOTS)
def test_the_empty_slot_set_is_neutral_and_smallest(slots: ResourceSlot) -> None:
    assert slots + NOTHING == slots - NOTHING == slots
    assert slots >= NOTHING
    assert (slots <= NOTHING) == (slots == NOTHING)


@settings
@given(FINITE, FINITE)
def test_subtracting_undoes_adding(left: ResourceSlot, right: ResourceSlot) -> None:
    assert (left + right) - right == left


@settings
@given(SLOTS, SLOTS, SLOTS)
def test_adding_is_commutative_and_associative(one: ResourceSlot, two: ResourceSlot, three: ResourceSlot) -> None:
    assert one + two == two + one
    assert (one + two) + three == one + (two + three)


@settings
@given(SMALL, SMALL, SMALL)
def test_at_most_is_a_partial_order(one: ResourceSlot, two: ResourceSlot, three: ResourceSlot) -> None:
    assert one <= one
    assert not (one <= two and two <= one) or one == two
    assert not (one <= two and two <= three) or one <= three
    assert (one < two) == (one <= two and one != two) == (two > one)
    assert (one <= two) == (two >= one)


def test_the_order_is_not_total() -> None:
    one, two = ResourceSlot.parse({"cpu": "1"}), ResourceSlot.parse({"mem": "1g"})
    assert not one <= two
    assert not two <= one


@settings
@given(FINITE, SLOTS)
def test_a_difference_exists_exactly_when_it_is_not_negative(taken: ResourceSlot, slots: ResourceSlot) -> None:
    if taken <= slots:
        assert (slots - taken) + taken == slots
    else:
        with pytest.raises(InvalidAmount):
            slots - taken


@settings
@given(SLOTS, FINITE, NAMES)
def test_unlimited_stays_unlimited_and_is_above_every_number(
    slots: ResourceSlot, finite: ResourceSlot, name: SlotName
) -> None:
    unlimited = ResourceSlot({**slots, name: UNLIMITED})
    assert (unlimited + finite)[name] is UNLIMITED
    assert finite[name] == 0 or not unlimited <= finite
    assert ResourceSlot({name: finite[name]}) <= unlimited
    if finite <= unlimited:
        assert (unlimited - finite)[name] is UNLIMITED
    with pytest.raises(InvalidAmount):
        unlimited - unlimited


@settings
@given(st.dictionaries(NAMES, AMOUNTS))
def test_the_order_of_slot_names_does_not_matter(amounts: dict[SlotName, Amount]) -> None:
    one, two = ResourceSlot(amounts), ResourceSlot(dict(reversed(amounts.items())))
    assert (one, hash(one), repr(one), list(one.items())) == (two, hash(two), repr(two), list(two.items()))


@settings
@given(SLOTS)
def test_formatted_slots_parse_to_the_same_value(slots: ResourceSlot) -> None:
    assert ResourceSlot.parse(slots.to_text()) == slots
    assert not any("E+" in text or "e-" in text for text in slots.to_text().values())


@pytest.mark.parametrize("amount", [-1, 1.5, True, "1", None])
def test_only_whole_numbers_are_amounts(amount: object) -> None:
    with pytest.raises(InvalidAmount):
        ResourceSlot({SlotName("cpu"): amount})  # type: ignore[dict-item]  # the types forbid this


@pytest.mark.parametrize(
    ("slot", "text", "amount"),
    [
        ("cuda.shares", "0.2", 200),
        ("cuda.shares", "1", 1000),
        ("cuda.shares", "0.005", 5),
        ("cuda.shares", "1e-3", 1),
        ("cuda.shares", "2E1", 20_000),
        ("cuda.shares", ".5", 500),
        ("cuda.device", "8", 8),
        ("cuda.device", "8.000", 8),
        ("cpu", " 4 ", 4),
        ("cpu", "1e3", 1000),
        ("cpu", "-0", 0),
        ("mem", "2g", 2 * 1024**3),
        ("mem", "512m", 512 * 1024**2),
        ("mem", "4096", 4096),
        ("cpu", "9223372036854775807", AMOUNT_MAX),
        ("cpu", "unlimited", UNLIMITED),
        ("mem", "Unlimited", UNLIMITED),
    ],
)
def test_amounts_are_parsed(slot: str, text: str, amount: Amount) -> None:
    assert parse_amount(slot, text) == amount


NOT_AMOUNTS = [
    "", " ", "NaN", "-NaN", "sNaN", "nan123", "Infinity", "-inf", "inf", "-1", "-0.01", "1e400", "1e9999", "1e99999",
    "1e-99999", "٣", "１", "1_000", "1,5", "0x10", "1/2", "two", "1 2", "--1", "e5", ".", "1\0", "9" * 41,
    " " * 50 + "1", "9223372036854775808",
]  # fmt: skip


@pytest.mark.parametrize("text", NOT_AMOUNTS)
@pytest.mark.parametrize("slot", ["cpu", "mem", "cuda.device", "cuda.shares"])
def test_invalid_amounts_are_refused(slot: str, text: str) -> None:
    with pytest.raises(InvalidAmount) as caught:
        parse_amount(slot, text)
    assert caught.value.slot == slot
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("slot", "text", "step"),
    [
        ("cpu", "0.5", "1"),
        ("cuda.device", "1.000000000000000000000000000000000001", "1"),
        ("cuda.shares", "0.0005", "0.001"),
        ("cuda.shares", "0.200000000000000000000000000000000001", "0.001"),
        ("cpu", "1e-9999", "1"),
    ],
)
def test_amounts_finer_than_the_base_unit_are_refused(slot: str, text: str, step: str) -> None:
    with pytest.raises(NotMultipleOfQuantum) as caught:
        parse_amount(slot, text)
    assert caught.value.quantum == step


@settings
@given(st.text(max_size=60), NAMES)
def test_any_text_is_parsed_or_refused_with_an_expected_error(text: str, slot: SlotName) -> None:
    try:
        amount = parse_amount(slot, text)
    except (InvalidAmount, NotMultipleOfQuantum):
        return
    assert amount is UNLIMITED or 0 <= amount <= AMOUNT_MAX


@settings
@given(st.integers(0, AMOUNT_MAX), NAMES)
def test_formatted_amounts_parse_to_the_same_value(amount: int, slot: SlotName) -> None:
    text = format_amount(slot, amount)
    assert parse_amount(slot, text) == amount
    assert is_size(slot) or "e" not in text.lower()


@pytest.mark.parametrize(
    ("slot", "amount", "text"),
    [
        ("cuda.shares", 0, "0.00"),
        ("cuda.shares", 200, "0.20"),
        ("cuda.shares", 125, "0.125"),
        ("cuda.shares", 12_340, "12.34"),
        ("cuda.device", 8, "8"),
        ("mem", 2 * 1024**3, "2g"),
        ("mem", 1000, "1000"),
        ("mem", 0, "0"),
        ("cpu", UNLIMITED, "unlimited"),
    ],
)
def test_amounts_are_formatted(slot: str, amount: Amount, text: str) -> None:
    assert format_amount(slot, amount) == text


@pytest.mark.parametrize("name", ["cpu", "mem", "cuda.device", "cuda.shares", "mig-1g.10gb", "tpu_v4.device.half"])
def test_valid_slot_names_are_accepted(name: str) -> None:
    assert SLOT_NAME.fullmatch(name)


@pytest.mark.parametrize(
    "name", ["", "Cpu", "1cpu", "cuda.", ".device", "a.b.c.d", "cuda device", "cuda.Device", "é", "c" * 33]
)
def test_invalid_slot_names_are_refused(name: str) -> None:
    assert SLOT_NAME.fullmatch(name) is None


@pytest.mark.parametrize(
    ("name", "accelerator"), [("cuda.device", True), ("tpu.mem", True), ("cpu", False), ("mem", False)]
)
def test_accelerators_are_recognised_by_their_slot_name(name: str, accelerator: bool) -> None:
    assert is_accelerator(name) is accelerator
