"""The refusals of an allocation, in words that say what was asked, what there is, and why the two do not meet."""

from collections.abc import Sequence

from aliquot_schema.errors import (
    FractionalResourceFragmented,
    InsufficientResource,
    InvalidAmount,
    InvalidResourceCombination,
    NotMultipleOfQuantum,
    UnsupportedResource,
)
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.slots import UNLIMITED_TEXT, format_amount


def insufficient(slot: SlotName, *, requested: int, available: int) -> InsufficientResource:
    """Less is free than was asked."""
    asked, free = format_amount(slot, requested), format_amount(slot, available)
    return InsufficientResource(f"{slot}: {asked} asked, {free} free", slot=slot, requested=asked, available=free)


def fragmented(slot: SlotName, *, requested: int, largest: int, equal: bool) -> FractionalResourceFragmented:
    """There is enough in sum; the largest piece is too small, and splitting is not allowed or not possible."""
    asked, free = format_amount(slot, requested), format_amount(slot, largest)
    if equal:
        why = "no number of devices has room for equal parts of it; allow_fragmentation would take unequal ones"
    else:
        why = f"the largest piece is {free}; allow_fragmentation would take several"
    return FractionalResourceFragmented(
        f"{slot}: {asked} is free in sum, but {why}",
        slot=slot,
        requested=asked,
        available=free,
    )


def unsplittable(slot: SlotName, *, requested: int, largest: int) -> FractionalResourceFragmented:
    """There is enough in sum, but no split gives every device its least memory."""
    asked, free = format_amount(slot, requested), format_amount(slot, largest)
    return FractionalResourceFragmented(
        f"{slot}: {asked} is free in sum, but not in parts that each have the memory asked for",
        slot=slot,
        requested=asked,
        available=free,
    )


def too_little_memory(slot: SlotName, *, requested: int, memory_bytes: int) -> InsufficientResource:
    """No device that could be given has, for this amount, the memory asked for."""
    asked = format_amount(slot, requested)
    return InsufficientResource(
        f"{slot}: no device gives {_gigabytes(memory_bytes)} of memory for {asked}",
        slot=slot,
        requested=asked,
        available=format_amount(slot, 0),
    )


def other_models(slot: SlotName, *, requested: int, models: Sequence[str]) -> InsufficientResource:
    """No device of this agent is of a model that was asked for."""
    asked = format_amount(slot, requested)
    hint = "" if any("*" in model for model in models) else f"; * stands for any letters, as in *{models[0]}*"
    return InsufficientResource(
        f"{slot}: no device is of a model named {' or '.join(models)}{hint}",
        slot=slot,
        requested=asked,
        available=format_amount(slot, 0),
    )


def off_quantum(slot: SlotName, *, requested: int, quanta: Sequence[int]) -> NotMultipleOfQuantum:
    """The amount is a multiple of no device's step."""
    asked, step = format_amount(slot, requested), format_amount(slot, min(quanta))
    return NotMultipleOfQuantum(
        f"{slot}: {asked} is not a multiple of {step}",
        slot=slot,
        amount=asked,
        quantum=step,
    )


def unsupported(slot: SlotName, *, requested: int) -> UnsupportedResource:
    """No device offers the slot."""
    return UnsupportedResource(
        f"{slot}: this agent has no such slot",
        slot=slot,
        requested=format_amount(slot, requested),
    )


def same_kind(first: SlotName, second: SlotName, *, requested: int) -> InvalidResourceCombination:
    """Two slots of one kind of accelerator."""
    return InvalidResourceCombination(
        f"{first} and {second} are parts of the same devices; ask for one of them",
        slot=second,
        requested=format_amount(second, requested),
    )


def not_unique(slot: SlotName, *, requested: int) -> InsufficientResource:
    """More than one of a slot that a kernel can have one of."""
    asked = format_amount(slot, requested)
    return InsufficientResource(
        f"{slot}: {asked} asked, and a kernel can have one", slot=slot, requested=asked, available="1"
    )


def unlimited(slot: SlotName) -> InvalidAmount:
    """Unlimited is a quota, not something that can be given."""
    return InvalidAmount(f"{slot}: an unlimited amount cannot be given", slot=slot, amount=UNLIMITED_TEXT)


def device_not_free(slot: SlotName, *, device_id: DeviceId, requested: int, available: int) -> InsufficientResource:
    """A named device has less free than was granted on it."""
    asked, free = format_amount(slot, requested), format_amount(slot, available)
    return InsufficientResource(
        f"{slot}: {asked} granted on {device_id}, {free} free there",
        slot=slot,
        requested=asked,
        available=free,
    )


def device_not_offered(slot: SlotName, *, device_id: DeviceId, requested: int) -> UnsupportedResource:
    """A named device is not there, is not healthy, or has no such slot."""
    return UnsupportedResource(
        f"{slot}: {device_id} does not offer it (any more)",
        slot=slot,
        requested=format_amount(slot, requested),
    )


def _gigabytes(size: int) -> str:
    """As `gpu_memory_gb` is written, in units of 10^9 bytes."""
    whole, rest = divmod(size, 10**9)
    return f"{whole}.{rest:09}".rstrip("0").rstrip(".") + " GB"
