"""Simple placement strategies: formulas that do not depend on the mix of requests."""

from typing import Final

import numpy as np

from aliquot.core.placement.strategy import Candidates, RequestClass, Scores, tightest

CPU_LARGEST: Final = 128_000
"""Milli-cores of the largest node in the published comparison."""
MILLI_LARGEST: Final = 8_000


class BestFit:
    """Best fit: the node with the least CPU and devices left, relative to the largest node.

    score = int(100 * (1 - (cpu left / largest + milli left / largest) / 2)).

    Source: the baseline in Weng et al., Beware of Fragmentation, USENIX ATC 2023.
    """

    is_random: Final = False

    def score(self, candidates: Candidates, request: RequestClass) -> Scores:
        """Shares go on the tightest device."""
        cpu_left = candidates.cpu_free - request.cpu
        milli_left = candidates.dev_free.sum(axis=1) - request.devices * request.milli
        whole = 2 * CPU_LARGEST
        left = cpu_left + milli_left * (CPU_LARGEST // MILLI_LARGEST)
        return Scores(100 * (whole - left) // whole, tightest(candidates))


class DotProduct:
    """Dot product: the node whose free amounts point least in the direction of the request.

    score = int(100 * (1 - (cpu free * cpu / largest^2 + milli free * milli / largest^2) / 2)).

    Source: the baseline in Weng et al., Beware of Fragmentation, USENIX ATC 2023.
    """

    is_random: Final = False

    def score(self, candidates: Candidates, request: RequestClass) -> Scores:
        """Shares go on the tightest device."""
        milli_asked = request.devices * request.milli
        ratio = (CPU_LARGEST // MILLI_LARGEST) ** 2
        whole = 2 * CPU_LARGEST**2
        product = candidates.cpu_free * request.cpu + candidates.dev_free.sum(axis=1) * (milli_asked * ratio)
        return Scores(100 * (whole - product) // whole, tightest(candidates))


class FirstFit:
    """First fit: agents in natural order of their ids."""

    is_random: Final = False

    def score(self, candidates: Candidates, request: RequestClass) -> Scores:  # noqa: ARG002 # one interface
        """Shares go on the tightest device."""
        return Scores(-candidates.name_rank, tightest(candidates))


class Pack:
    """Pack: devices in use first, then idle devices of nodes in use, then idle nodes.

    A device in use scores 100 minus a tenth of its free percent, an idle one 50 minus the devices requested, an idle
    node 33 minus its devices. All nodes are equal for a request without devices.

    Source: GpuPacking, a baseline in Weng et al., Beware of Fragmentation, USENIX ATC 2023.
    """

    is_random: Final = False

    def score(self, candidates: Candidates, request: RequestClass) -> Scores:
        """Shares go on the tightest device."""
        columns = tightest(candidates)
        exists = candidates.dev_size > 0
        count = exists.sum(axis=1)
        idle = exists & (candidates.dev_free == candidates.dev_size)
        chosen = np.arange(len(columns)), columns
        in_use = (request.devices == 1) & ~idle[chosen]
        percent = candidates.dev_free[chosen] // 10
        scores = np.where(in_use, 100 - percent // 10, 50 - request.devices)
        scores = np.where(idle.sum(axis=1) == count, 33 - count, scores)
        return Scores(scores if request.devices else np.zeros_like(scores), columns)


class RandomNode:
    """Random: all rows have the same score, and the seed breaks the tie."""

    is_random: Final = True

    def score(self, candidates: Candidates, request: RequestClass) -> Scores:  # noqa: ARG002 # one interface
        """Shares go on the tightest device."""
        return Scores(np.zeros(len(candidates.rows), dtype=np.int64), tightest(candidates))


class Spread:
    """Spread: the node with the largest free part of its devices.

    score = free milli per 1000 milli of the node; 0 for nodes without devices.
    """

    is_random: Final = False

    def score(self, candidates: Candidates, request: RequestClass) -> Scores:  # noqa: ARG002 # one interface
        """Shares go on the tightest device, so that idle ones stay idle inside a node."""
        size = candidates.dev_size.sum(axis=1)
        free = candidates.dev_free.sum(axis=1)
        return Scores(np.where(size > 0, 1000 * free // np.maximum(size, 1), 0), tightest(candidates))
