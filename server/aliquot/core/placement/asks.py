"""What rows of the queue ask for, in the terms of the arrays, and which devices may be given to them."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from aliquot.core.allocation.options import AllocationOptions
from aliquot.core.placement.cluster import BoolArray
from aliquot.core.placement.devices import CPU, MEM, DeviceTable
from aliquot.core.placement.requests import WHOLE_MILLI, Mix, RequestClass
from aliquot.core.placement.scoreboard import Ask
from aliquot.core.snapshot import PendingRow, Request
from aliquot_schema.ids import SlotName
from aliquot_schema.slots import MILLI, is_accelerator, scale_of

MEMORY_BYTES_MAX: Final = 2**43
"""Above the memory of any device, and small enough to be multiplied in 64 bits."""

COUNT_BITS: Final = 5


def class_of(request: Request) -> RequestClass:
    """The class of a request per kernel: its first accelerator, CPU and memory.

    Shares of more than one device count as equal parts of as few as possible. What a class cannot say (other slots,
    parts of another shape) the allocation inside an agent does.
    """
    amounts = dict(request)
    slot = accelerator_of(request)
    devices = milli = 0
    if slot is not None:
        milli_sum = amounts[slot] * (MILLI // scale_of(slot))
        devices = -(-milli_sum // WHOLE_MILLI)
        milli = -(-milli_sum // devices)
    return RequestClass(cpu=amounts.get(CPU, 0) * 1000, mem=amounts.get(MEM, 0), devices=devices, milli=milli)


def accelerator_of(request: Request) -> SlotName | None:
    """The first slot of an accelerator that is asked for."""
    return next((slot for slot, _ in request if is_accelerator(slot)), None)


def mix_of(asked: Mapping[Request, int]) -> Mix:
    """The mix of everything asked.

    Counts are rounded down to their first `COUNT_BITS` bits, so that the mix, and all scores that are made by it, stay
    the same for a while when there are many sessions; a sixteenth more or less of a class does not matter.
    """
    counts: dict[RequestClass, int] = {}
    for request, count in asked.items():
        kind = class_of(request)
        counts[kind] = counts.get(kind, 0) + count
    return Mix.of({kind: _rounded(count) for kind, count in counts.items()})


def _rounded(count: int) -> int:
    rest = max(count.bit_length() - COUNT_BITS, 0)
    return count >> rest << rest


class Asks:
    """Makes the `Ask` of a row; the same one for all rows of a class."""

    def __init__(self, devices: DeviceTable, options: AllocationOptions) -> None:
        self._devices = devices
        self._options = options
        self._known: dict[tuple[Request, int | None, tuple[str, ...]], Ask] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, row: PendingRow) -> Ask:
        """What this row asks for."""
        key = (row.request, row.gpu_memory_bytes, row.where.models)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._ask(row)
        return known

    def _ask(self, row: PendingRow) -> Ask:
        slot = accelerator_of(row.request)
        request = class_of(row.request)
        if slot is None:
            return Ask(request=request)
        usable = self._usable(slot, amount=dict(row.request)[slot], row=row)
        offers = self._devices.offers(slot)
        is_share = scale_of(slot) == MILLI
        is_split = is_share and request.devices > 1
        is_plain = bool((offers.is_plain | ~usable).all())
        return Ask(
            request=request,
            usable=usable,
            is_share=is_share,
            is_loose=is_split or self._options.allow_fragmentation or not is_plain,
        )

    def _usable(self, slot: SlotName, *, amount: int, row: PendingRow) -> BoolArray:
        """[rows, D] devices of the right models that offer the slot on this step, with memory enough for the largest
        part."""
        offers = self._devices.offers(slot)
        usable: BoolArray = offers.has_slot & (amount % offers.quantum == 0)
        for patterns in (self._options.models, row.where.models):
            if patterns:
                usable &= self._devices.of_models(patterns)
        memory_bytes = row.gpu_memory_bytes
        if memory_bytes:
            size = self._devices.size
            part = np.minimum(size, amount) if scale_of(slot) == MILLI else size
            usable &= self._devices.memory_bytes * part >= min(memory_bytes, MEMORY_BYTES_MAX) * size
        return usable
