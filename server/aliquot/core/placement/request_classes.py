"""Request classes: requests that are placed alike, and the mix of classes that strategies learn from."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

WHOLE_MILLI: Final = 1000
"""One whole device of capacity 1."""
PRIOR_SHARES: Final = tuple(range(100, WHOLE_MILLI, 100))


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestClass:
    """Request of one kernel. Kernels of one class are placed alike."""

    cpu: int
    """Milli-cores."""
    mem: int
    """In the unit of the cluster's `mem_free`."""
    devices: int
    """Accelerators that it is spread over; 0 = none."""
    milli: int
    """Milli of each accelerator; 1000 = a whole one."""


@dataclass(frozen=True, kw_only=True)
class RequestMix:
    """How often each class was requested, by queued and earlier sessions."""

    counts: tuple[tuple[RequestClass, int], ...]
    """The most frequent first; ties go to the larger request."""

    @classmethod
    def of(cls, counts: Mapping[RequestClass, int]) -> "RequestMix":
        """The mix; the same for the same counts in any order."""
        ranked = sorted(counts.items(), key=lambda item: (item[1], _size(item[0])), reverse=True)
        return cls(counts=tuple(ranked))

    @cached_property
    def share_frequencies(self) -> tuple[tuple[int, float], ...]:
        """(milli, part of all requests) of requests for a part of one device, by size.

        Without any request: each tenth of a device is as frequent as a whole one.
        """
        if not self.counts:
            return tuple((milli, 1 / (len(PRIOR_SHARES) + 1)) for milli in PRIOR_SHARES)
        sums: dict[int, int] = {}
        for request, count in self.counts:
            if 0 < request.milli < WHOLE_MILLI:
                sums[request.milli] = sums.get(request.milli, 0) + count
        return tuple((milli, sums[milli] / self._total) for milli in sorted(sums))

    @cached_property
    def whole_frequency(self) -> float:
        """Part of all requests that are for whole devices."""
        if not self.counts:
            return 1 / (len(PRIOR_SHARES) + 1)
        wholes = sum(count for request, count in self.counts if request.milli >= WHOLE_MILLI)
        return wholes / self._total

    @cached_property
    def cpu_and_milli(self) -> tuple[int, int]:
        """Total milli-cores and total milli of devices of the requests for accelerators."""
        cpu = sum(request.cpu * count for request, count in self.counts if request.devices)
        milli = sum(request.devices * request.milli * count for request, count in self.counts)
        return cpu, milli

    @cached_property
    def _total(self) -> int:
        return sum(count for _, count in self.counts)


def _size(request: RequestClass) -> tuple[int, int, int, int]:
    return request.devices, request.milli, request.cpu, request.mem
