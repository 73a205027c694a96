"""Placement requests: pending rows in terms of the cluster arrays, with the devices that they may use."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from aliquot.core.allocation.options import AllocationOptions
from aliquot.core.model.snapshot import PendingRow, Request
from aliquot.core.placement.cluster_arrays import CPU, MEM, BoolArray, DeviceTable
from aliquot.core.placement.request_classes import WHOLE_MILLI, RequestClass, RequestMix
from aliquot.core.placement.scoreboard import PlacementRequest
from aliquot_schema.ids import SlotName
from aliquot_schema.resources.slots import MILLI, is_accelerator, scale_of

MEMORY_BYTES_MAX: Final = 2**43
"""More than any device has, and small enough to multiply in 64 bits."""

COUNT_BITS: Final = 5
"""Significant bits of a count in the mix."""


def class_of(request: Request) -> RequestClass:
    """The class of a request per kernel: its first accelerator, CPU and memory.

    Shares of more than one device count as equal parts of as few devices as possible. Other slots and other splits are
    left to the allocation on the agent.
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
    """The first accelerator slot of a request; None without one."""
    return next((slot for slot, _ in request if is_accelerator(slot)), None)


def mix_of(asked: Mapping[Request, int]) -> RequestMix:
    """The mix of all requests.

    Counts are rounded down to `COUNT_BITS` significant bits, so that with many sessions the mix, and the scores that
    depend on it, seldom change. The error is at most 1/16 per class.
    """
    counts: dict[RequestClass, int] = {}
    for request, count in asked.items():
        kind = class_of(request)
        counts[kind] = counts.get(kind, 0) + count
    return RequestMix.of({kind: _rounded(count) for kind, count in counts.items()})


def _rounded(count: int) -> int:
    rest = max(count.bit_length() - COUNT_BITS, 0)
    return count >> rest << rest


class PlacementRequests:
    """Makes the request of a row; rows of one class share it."""

    def __init__(self, devices: DeviceTable, options: AllocationOptions) -> None:
        self._devices = devices
        self._options = options
        self._known: dict[tuple[Request, int | None, tuple[str, ...]], PlacementRequest] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, row: PendingRow) -> PlacementRequest:
        """The request of a row."""
        key = (row.request, row.gpu_memory_bytes, row.where.models)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._request(row)
        return known

    def _request(self, row: PendingRow) -> PlacementRequest:
        slot = accelerator_of(row.request)
        request = class_of(row.request)
        if slot is None:
            return PlacementRequest(request=request)
        usable = self._usable(slot, amount=dict(row.request)[slot], row=row)
        offers = self._devices.offers(slot)
        is_share = scale_of(slot) == MILLI
        is_split = is_share and request.devices > 1
        is_plain = bool((offers.is_plain | ~usable).all())
        return PlacementRequest(
            request=request,
            usable=usable,
            is_share=is_share,
            is_loose=is_split or self._options.allow_fragmentation or not is_plain,
        )

    def _usable(self, slot: SlotName, *, amount: int, row: PendingRow) -> BoolArray:
        """[rows, D] devices of the right models that offer the slot in this quantum, with enough memory for the largest
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
