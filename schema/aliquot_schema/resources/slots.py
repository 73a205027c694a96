"""Slots: named resources, their amounts, and arithmetic on amounts by slot.

Amounts are integers in a slot's base unit: bytes, whole counts, or milli for `*.shares` (1000 = one whole device of
capacity 1). Interfaces use decimal text: `"0.2"` shares are 200.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from enum import Enum, StrEnum
from functools import lru_cache
from typing import Final, Literal, Self

from aliquot_schema.errors import InvalidAmount, NotMultipleOfQuantum
from aliquot_schema.ids import SlotName
from aliquot_schema.resources.units import EXACT, TEXT_CHARS_MAX, format_size, parse_size, size_text

MILLI: Final = 1000
AMOUNT_MAX: Final = 2**63 - 1
"""The largest amount the databases hold."""
UNLIMITED_TEXT: Final = "unlimited"

_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,4})?", re.ASCII | re.IGNORECASE)
"""Stricter than `Decimal`, which accepts digits of all scripts, underscores, NaN, and exponents that underflow."""

_GPU_KINDS: Final = frozenset({"cuda", "rocm"})

SLOT_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}(\.[a-z0-9][a-z0-9_-]{0,31}){0,2}", re.ASCII)


class SlotType(StrEnum):
    """How amounts of a slot are counted."""

    COUNT = "count"
    BYTES = "bytes"
    UNIQUE = "unique"
    """A kernel can hold at most one."""


class Unlimited(Enum):
    """An amount above every number; adding or subtracting a number leaves it unlimited."""

    UNLIMITED = UNLIMITED_TEXT


UNLIMITED: Final = Unlimited.UNLIMITED
Amount = int | Literal[Unlimited.UNLIMITED]


def scale_of(slot: str) -> int:
    """Base units per written unit: 1000 for `*.shares`, else 1."""
    return MILLI if slot.endswith(".shares") else 1


def is_size(slot: str) -> bool:
    """Whether amounts of this slot are bytes: `mem`, and accelerators' `*.mem`."""
    return slot == "mem" or slot.endswith(".mem")


def is_accelerator(slot: str) -> bool:
    """Whether the slot belongs to an accelerator: `<kind>.<unit>`."""
    return "." in slot


@lru_cache(maxsize=4096)
def parse_amount(slot: str, text: str) -> Amount:
    """Parse an amount of a slot into base units.

    Raises:
        InvalidAmount: not a number, not finite, negative, or too large.
        NotMultipleOfQuantum: finer than the base unit.
    """
    if len(text) > TEXT_CHARS_MAX:
        raise InvalidAmount(f"{slot}: an amount has at most {TEXT_CHARS_MAX} characters", slot=slot, amount=text[:40])
    written = text.strip()
    if written.lower() == UNLIMITED_TEXT:
        return UNLIMITED
    amount = _size(slot, written) if is_size(slot) else _decimal(slot, written, scale=scale_of(slot))
    if amount != amount.to_integral_value():
        step = format_amount(slot, 1)
        raise NotMultipleOfQuantum(
            f"{slot}: {written} is finer than the smallest step, {step}",
            slot=slot,
            amount=written,
            quantum=step,
        )
    if amount > AMOUNT_MAX:
        raise InvalidAmount(f"{slot}: {written[:40]} is too large", slot=slot, amount=written[:40])
    return int(amount)


def format_amount(slot: str, amount: Amount) -> str:
    """Format an amount as plain decimal text, never in scientific notation; sizes get a binary suffix."""
    if isinstance(amount, Unlimited):
        return UNLIMITED_TEXT
    if is_size(slot):
        return format_size(amount)
    if scale_of(slot) == 1:
        return str(amount)
    return format_milli(amount)


def format_milli(amount: int) -> str:
    """Format milli as a decimal with at least two places: 200 -> `0.20`, 125 -> `0.125`."""
    whole, rest = divmod(amount, MILLI)
    places = f"{rest:03d}"
    return f"{whole}.{places[:2] if places[2] == '0' else places}"


def amount_text(slot: str | None, amount: str | None) -> str:
    """An amount of a slot as people write it.

    Args:
        amount: decimal text, or a size for slots of memory.
    Returns:
        `2 GPUs`, `0.25 GPU`, `8 cores`, `9.4 GiB of memory`; other slots by their own name.
    """
    slot, amount = slot or "", amount or "0"
    kind, _, unit = slot.partition(".")
    number = number_text(slot, amount)
    if slot == "mem":
        return f"{number} of memory"
    if unit == "mem":
        return f"{number} of {_device_name(kind)} memory"
    noun = "core" if slot == "cpu" else _device_name(kind) if unit in ("device", "shares") else ""
    if not noun:
        return f"{number} {slot}".rstrip()
    is_single = number == "1" or number.startswith("0.")
    return f"{number} {noun}" if is_single else f"{number} {noun}s"


def number_text(slot: str | None, amount: str | None) -> str:
    """An amount as people write it, without what it is an amount of: `2`, `0.25`, `9.4 GiB`."""
    amount = amount or "0"
    if is_size(slot or ""):
        return size_text(parse_size(amount))
    return amount.rstrip("0").rstrip(".") if "." in amount else amount


def _device_name(kind: str) -> str:
    return "GPU" if kind in _GPU_KINDS else kind.upper()


def _size(slot: str, text: str) -> Decimal:
    try:
        return Decimal(parse_size(text))
    except InvalidAmount as refusal:
        raise InvalidAmount(f"{slot}: {refusal.message}", slot=slot, amount=refusal.amount) from None


def _decimal(slot: str, text: str, *, scale: int) -> Decimal:
    if _NUMBER.fullmatch(text) is None:
        raise InvalidAmount(f"{slot}: {text!r} is not a finite decimal number", slot=slot, amount=text)
    amount = Decimal(text)
    if amount < 0:
        raise InvalidAmount(f"{slot}: {text} is negative", slot=slot, amount=text)
    if amount.adjusted() > 24:
        raise InvalidAmount(f"{slot}: {text} is too large", slot=slot, amount=text)
    return EXACT.multiply(amount, Decimal(scale))


class SlotAmounts(Mapping[SlotName, Amount]):
    """Limits by slot, in base units. Zero allows none; a missing slot is not limited.

    Immutable; names are sorted, so that equal values print and hash the same.
    """

    __slots__ = ("_amounts", "_finite", "_hash")

    def __init__(self, amounts: Mapping[SlotName, Amount] | Mapping[str, Amount] | None = None) -> None:
        kept: dict[SlotName, Amount] = {}
        for name, amount in sorted((amounts or {}).items()):
            if not isinstance(amount, Unlimited) and (type(amount) is not int or amount < 0):
                raise InvalidAmount(f"{name}: {amount!r} is not a whole number >= 0", slot=name, amount=str(amount))
            kept[SlotName(name)] = amount
        self._amounts = kept
        self._hash: int | None = None
        self._finite: tuple[tuple[SlotName, int], ...] | None = None

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> Self:
        """Parse `{slot: decimal text}`; raises as `parse_amount` does."""
        return cls({SlotName(slot): parse_amount(slot, text) for slot, text in texts.items()})

    def to_text(self) -> dict[str, str]:
        """The inverse of `parse`."""
        return {slot: format_amount(slot, amount) for slot, amount in self._amounts.items()}

    @property
    def finite(self) -> tuple[tuple[SlotName, int], ...]:
        """(slot, amount) pairs without unlimited ones; computed once."""
        if self._finite is None:
            self._finite = tuple(
                (slot, amount) for slot, amount in self._amounts.items() if not isinstance(amount, Unlimited)
            )
        return self._finite

    def __getitem__(self, slot: str) -> Amount:
        return self._amounts[SlotName(slot)]

    def __iter__(self) -> Iterator[SlotName]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def __contains__(self, slot: object) -> bool:
        return slot in self._amounts

    def __eq__(self, other: object) -> bool:
        return self._amounts == other._amounts if isinstance(other, SlotAmounts) else NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._amounts.items()))
        return self._hash

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_text()!r})"


class ResourceSlot(SlotAmounts):
    """Amounts by slot, in base units. A missing slot is zero, in comparison, addition and subtraction alike.

    Immutable; zeros are dropped and names sorted, so that equal values print and hash the same. `<=` is the
    component-wise partial order: neither of two may be `<=` the other.
    """

    __slots__ = ()

    def __init__(self, amounts: Mapping[SlotName, Amount] | Mapping[str, Amount] | None = None) -> None:
        super().__init__(amounts)
        self._amounts = {slot: amount for slot, amount in self._amounts.items() if amount != 0}

    def __getitem__(self, slot: str) -> Amount:
        return self._amounts.get(SlotName(slot), 0)

    def __add__(self, other: "ResourceSlot") -> "ResourceSlot":
        """Sum, slot by slot."""
        return ResourceSlot({slot: _add(self[slot], other[slot]) for slot in {*self, *other}})

    def __sub__(self, other: "ResourceSlot") -> "ResourceSlot":
        """Difference, slot by slot.

        Raises:
            InvalidAmount: the result would be negative, or the subtrahend is unlimited.
        """
        return ResourceSlot({slot: _subtract(slot, self[slot], other[slot]) for slot in {*self, *other}})

    def __le__(self, other: "ResourceSlot") -> bool:
        return all(_at_most(amount, other[slot]) for slot, amount in self._amounts.items())

    def __lt__(self, other: "ResourceSlot") -> bool:
        return self <= other and self != other

    def __ge__(self, other: "ResourceSlot") -> bool:
        return other <= self

    def __gt__(self, other: "ResourceSlot") -> bool:
        return other < self


def _add(left: Amount, right: Amount) -> Amount:
    if isinstance(left, Unlimited) or isinstance(right, Unlimited):
        return UNLIMITED
    return left + right


def _subtract(slot: str, left: Amount, right: Amount) -> Amount:
    if isinstance(right, Unlimited):
        raise InvalidAmount(f"{slot}: unlimited cannot be subtracted", slot=slot, amount=UNLIMITED_TEXT)
    if isinstance(left, Unlimited):
        return UNLIMITED
    if right > left:
        short = format_amount(slot, right - left)
        raise InvalidAmount(f"{slot}: the difference would be negative by {short}", slot=slot, amount=f"-{short}")
    return left - right


def _at_most(left: Amount, right: Amount) -> bool:
    if isinstance(right, Unlimited):
        return True
    return not isinstance(left, Unlimited) and left <= right
