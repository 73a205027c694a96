"""What quotas count: amounts by kind of device, so that silicon with several slots counts once.

An accelerator is counted in milli, under the name of its shares: one `cuda.device` is 1000 of `cuda.shares`. All else
is counted by its slot, in its base unit.
"""

from collections.abc import Iterable, Mapping

from aliquot.core.plan import KernelPlacement
from aliquot.core.snapshot import milli_of
from aliquot_schema.ids import SlotName
from aliquot_schema.slots import MILLI, SlotAmounts, format_amount, format_milli

Amounts = Mapping[SlotName, int]
"""By counted slot; all > 0, but for limits."""


def counted_as(slot: SlotName) -> SlotName:
    """The slot that this one is counted under."""
    return SlotName(f"{slot.split('.')[0]}.shares") if milli_of(slot) else slot


def counted(pairs: Iterable[tuple[SlotName, int]], *, times: int = 1) -> dict[SlotName, int]:
    """The sum of amounts of slots."""
    found: dict[SlotName, int] = {}
    for slot, amount in pairs:
        name = counted_as(slot)
        found[name] = found.get(name, 0) + amount * (milli_of(slot) or 1) * times
    return found


def counted_in(kernels: Iterable[KernelPlacement]) -> dict[SlotName, int]:
    """What kernels hold."""
    return counted((slot, sum(amounts.values())) for kernel in kernels for slot, amounts in kernel.spec.items())


def limits(slots: SlotAmounts) -> dict[SlotName, int]:
    """Slots read as limits: of two that are counted alike the smaller holds; zero forbids, and the unlimited
    does not limit."""
    found: dict[SlotName, int] = {}
    for pair in slots.finite:
        for name, amount in counted([pair]).items():
            found[name] = min(found.get(name, amount), amount)
    return found


def accelerators(amounts: Amounts) -> dict[SlotName, int]:
    """Those that are counted in milli of a device."""
    return {name: amount for name, amount in amounts.items() if milli_of(name)}


def text_of(slot: SlotName, amount: int) -> str:
    """A counted amount as people write it of one of its slots."""
    unit = milli_of(slot)
    if unit <= 1:
        return format_amount(slot, amount)
    return format_milli(amount) if amount % MILLI else str(amount // MILLI)
