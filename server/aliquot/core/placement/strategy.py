"""The interface of all strategies: a score for each row that a request fits on, and how ties are settled."""

from typing import NamedTuple, Protocol

import numpy as np

from aliquot.core.placement.cluster import CPU_COLUMN, HOST_COLUMNS, BoolArray, Cluster, IntArray
from aliquot.core.placement.requests import Mix, RequestClass


class Candidates(NamedTuple):
    """Rows on which a request fits: n rows of up to D devices."""

    rows: IntArray
    """[n] numbers of the rows."""
    free: IntArray
    """[n, 2 + D] what is free, as the cluster has it."""
    usable: BoolArray
    """[n, D] devices that can take one part of the request; at least as many as it wants."""
    cluster: Cluster

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
        """[n] the place of each row in the natural order of the names."""
        return self.cluster.name_rank[self.rows]

    @property
    def dev_size(self) -> IntArray:
        """[n, D] milli; 0 = no such device."""
        return self.cluster.dev_size[self.rows]


class Scores(NamedTuple):
    """The higher the better; integers, so that equal is equal on every machine."""

    scores: IntArray
    """[n]"""
    columns: IntArray
    """[n] the device of a request for one device; of no meaning for others."""


class Strategy(Protocol):
    """A score that depends on the candidate's own row and on the request alone, so that it can be kept."""

    @property
    def draws_lots(self) -> bool:
        """Whether the seed settles ties, anew for every placement, instead of the lower row."""

    def score(self, candidates: Candidates, request: RequestClass) -> Scores: ...


class Making(Protocol):
    """Makes a strategy for a mix of requests and devices of at most `size_max` milli."""

    def __call__(self, mix: Mix, /, *, size_max: int) -> Strategy: ...


def tightest(candidates: Candidates) -> IntArray:
    """[n] the usable device with the least room, the first among equals."""
    blocked = np.iinfo(np.int64).max
    columns: IntArray = np.where(candidates.usable, candidates.dev_free, blocked).argmin(axis=1)
    return columns
