"""Refusals of an allocation: errors that state the requested amount, the available amount and the reason."""

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
from aliquot_schema.resources.slots import UNLIMITED_TEXT, format_amount


def insufficient(slot: SlotName, *, requested: int, available: int) -> InsufficientResource:
    """Less is free than requested."""
    asked, free = format_amount(slot, requested), format_amount(slot, available)
    return InsufficientResource(f"{slot}: {asked} requested, {free} free", slot=slot, requested=asked, available=free)


def fragmented(slot: SlotName, *, requested: int, largest: int, equal: bool) -> FractionalResourceFragmented:
    """Enough is free in total, but no device has enough, and splitting is not allowed or not possible."""
    asked, free = format_amount(slot, requested), format_amount(slot, largest)
    if equal:
        why = "not in equal parts on any number of devices; allow_fragmentation permits unequal ones"
    else:
        why = f"at most {free} on one device; allow_fragmentation permits several"
    return FractionalResourceFragmented(
        f"{slot}: {asked} is free in total, but {why}",
        slot=slot,
        requested=asked,
        available=free,
    )


def unsplittable(slot: SlotName, *, requested: int, largest: int) -> FractionalResourceFragmented:
    """Enough is free in total, but no split has the minimum memory in every part."""
    asked, free = format_amount(slot, requested), format_amount(slot, largest)
    return FractionalResourceFragmented(
        f"{slot}: {asked} is free in total, but not in parts that each have the requested memory",
        slot=slot,
        requested=asked,
        available=free,
    )


def too_little_memory(slot: SlotName, *, requested: int, memory_bytes: int) -> InsufficientResource:
    """No device has the requested memory for this amount."""
    asked = format_amount(slot, requested)
    return InsufficientResource(
        f"{slot}: no device has {_gigabytes(memory_bytes)} of memory for {asked}",
        slot=slot,
        requested=asked,
        available=format_amount(slot, 0),
    )


def other_models(slot: SlotName, *, requested: int, models: Sequence[str]) -> InsufficientResource:
    """No device of this agent matches a requested model."""
    asked = format_amount(slot, requested)
    hint = "" if any("*" in model for model in models) else f"; * matches any letters, as in *{models[0]}*"
    return InsufficientResource(
        f"{slot}: no device has a model named {' or '.join(models)}{hint}",
        slot=slot,
        requested=asked,
        available=format_amount(slot, 0),
    )


def off_quantum(slot: SlotName, *, requested: int, quanta: Sequence[int]) -> NotMultipleOfQuantum:
    """The amount is not a multiple of any device's quantum."""
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
    """More than one of a slot of type `unique`."""
    asked = format_amount(slot, requested)
    return InsufficientResource(
        f"{slot}: {asked} requested, and a kernel can have one", slot=slot, requested=asked, available="1"
    )


def unlimited(slot: SlotName) -> InvalidAmount:
    """An unlimited amount, which is only valid in a quota."""
    return InvalidAmount(f"{slot}: an unlimited amount cannot be allocated", slot=slot, amount=UNLIMITED_TEXT)


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
    """A named device is missing, unhealthy, or has no such slot."""
    return UnsupportedResource(
        f"{slot}: device {device_id} does not offer it",
        slot=slot,
        requested=format_amount(slot, requested),
    )


def _gigabytes(size: int) -> str:
    """As `gpu_memory_gb` is written, in units of 10^9 bytes."""
    whole, rest = divmod(size, 10**9)
    return f"{whole}.{rest:09}".rstrip("0").rstrip(".") + " GB"
