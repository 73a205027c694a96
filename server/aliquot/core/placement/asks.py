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
    """The mix of everything asked."""
    counts: dict[RequestClass, int] = {}
    for request, count in asked.items():
        kind = class_of(request)
        counts[kind] = counts.get(kind, 0) + count
    return Mix.of(counts)


class Asks:
    """Makes the `Ask` of a row; the same one for all rows of a class."""

    def __init__(self, devices: DeviceTable, options: AllocationOptions) -> None:
        self._devices = devices
        self._options = options
        self._known: dict[tuple[Request, int | None], Ask] = {}

    def of(self, row: PendingRow) -> Ask:
        """What this row asks for."""
        key = (row.request, row.gpu_memory_bytes)
        if key not in self._known:
            self._known[key] = self._ask(row)
        return self._known[key]

    def _ask(self, row: PendingRow) -> Ask:
        slot = accelerator_of(row.request)
        request = class_of(row.request)
        if slot is None:
            return Ask(request=request)
        usable = self._usable(slot, amount=dict(row.request)[slot], memory_bytes=row.gpu_memory_bytes)
        offers = self._devices.offers(slot)
        is_split = scale_of(slot) == MILLI and request.devices > 1
        is_plain = bool((offers.is_plain | ~usable).all())
        return Ask(
            request=request,
            usable=usable,
            is_loose=is_split or self._options.allow_fragmentation or not is_plain,
        )

    def _usable(self, slot: SlotName, *, amount: int, memory_bytes: int | None) -> BoolArray:
        """[rows, D] devices that offer the slot on this step, with memory enough for the largest part."""
        offers = self._devices.offers(slot)
        usable: BoolArray = offers.has_slot & (amount % offers.quantum == 0)
        if memory_bytes:
            size = self._devices.size
            part = np.minimum(size, amount) if scale_of(slot) == MILLI else size
            usable &= self._devices.memory_bytes * part >= min(memory_bytes, MEMORY_BYTES_MAX) * size
        return usable
