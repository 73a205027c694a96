"""Best fit: the node with least CPU and least of its devices left, in parts of the largest node."""

from typing import Final

from aliquot.core.placement.requests import RequestClass
from aliquot.core.placement.strategy import Candidates, Scores, tightest

CPU_LARGEST: Final = 128_000
"""Milli-cores of the largest node of the published comparison."""
MILLI_LARGEST: Final = 8_000


class BestFit:
    """score = int(100 * (1 - (cpu left / largest + milli left / largest) / 2)).

    Source: the baseline in Weng et al., Beware of Fragmentation, USENIX ATC 2023.
    """

    draws_lots: Final = False

    def score(self, candidates: Candidates, request: RequestClass) -> Scores:
        """Shares go on the tightest device."""
        cpu_left = candidates.cpu_free - request.cpu
        milli_left = candidates.dev_free.sum(axis=1) - request.devices * request.milli
        whole = 2 * CPU_LARGEST
        left = cpu_left + milli_left * (CPU_LARGEST // MILLI_LARGEST)
        return Scores(100 * (whole - left) // whole, tightest(candidates))
