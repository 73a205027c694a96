"""Placement strategy: the interface; scores the rows that a request fits on."""

from typing import NamedTuple, Protocol

import numpy as np

from aliquot.core.placement.cluster_arrays import CPU_COLUMN, HOST_COLUMNS, BoolArray, ClusterArrays, IntArray
from aliquot.core.placement.request_classes import RequestClass, RequestMix


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
