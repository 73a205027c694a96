"""Placement strategy: the interface. A strategy scores the rows that a request fits on, and may learn from the mix of
requests. Kernels of one request class are placed alike."""

from collections.abc import Mapping
from functools import cached_property
from typing import Final, NamedTuple, Protocol

import numpy as np
from msgspec import Struct

from aliquot.core.placement.cluster_arrays import (
    CPU_COLUMN,
    HOST_COLUMNS,
    WHOLE_MILLI,
    BoolArray,
    ClusterArrays,
    IntArray,
)

PRIOR_SHARES: Final = tuple(range(100, WHOLE_MILLI, 100))


class RequestClass(Struct, frozen=True, kw_only=True):
    """Request of one kernel. Kernels of one class are placed alike."""

    cpu: int
    """Milli-cores."""
    mem: int
    """In the unit of the cluster's `mem_free`."""
    devices: int
    """Accelerators that it is spread over; 0 = none."""
    milli: int
    """Milli of each accelerator; 1000 = a whole one."""


class RequestMix(Struct, frozen=True, kw_only=True, dict=True):
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


class Candidates(NamedTuple):
    """Rows that a request fits on: n rows of up to D devices."""

    rows: IntArray
    """[n] row numbers in the cluster."""
    free: IntArray
    """[n, 2 + D] free amounts, with the columns of the cluster."""
    usable: BoolArray
    """[n, D] devices that can hold one part of the request; at least as many per row as it needs."""
    cluster: ClusterArrays

    @property
    def row_count(self) -> int:
        """Rows of the whole cluster."""
        return len(self.cluster.nodes)

    @property
    def cpu_free(self) -> IntArray:
        """[n] milli-cores."""
        return self.free[:, CPU_COLUMN]

    @property
    def dev_free(self) -> IntArray:
        """[n, D] milli."""
        return self.free[:, HOST_COLUMNS:]

    @property
    def name_rank(self) -> IntArray:
        """[n] rank in the natural order of the names."""
        return self.cluster.name_rank[self.rows]

    @property
    def dev_size(self) -> IntArray:
        """[n, D] milli; 0 = no such device."""
        return self.cluster.dev_size[self.rows]


class Scores(NamedTuple):
    """Higher is better. Integers, so that ties are the same on every machine."""

    scores: IntArray
    """[n] of each candidate."""
    columns: IntArray
    """[n] best device of a request for one device; meaningless for others."""


class Strategy(Protocol):
    """Scores each candidate by its own row and the request alone, so that scores can be cached."""

    @property
    def is_random(self) -> bool:
        """Whether ties are broken at random by the seed, for every placement, instead of by the lower row."""

    def score(self, candidates: Candidates, request: RequestClass) -> Scores: ...


class StrategyFactory(Protocol):
    """Makes a strategy for a mix of requests and devices of at most `size_max` milli."""

    def __call__(self, mix: RequestMix, /, *, size_max: int) -> Strategy: ...


def tightest(candidates: Candidates) -> IntArray:
    """[n] the usable device with the least free, the first among equals."""
    blocked = np.iinfo(np.int64).max
    columns: IntArray = np.where(candidates.usable, candidates.dev_free, blocked).argmin(axis=1)
    return columns
