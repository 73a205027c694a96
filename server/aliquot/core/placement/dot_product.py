"""Dot product: the node whose free amounts point least in the direction of the request."""

from typing import Final

from aliquot.core.placement.best_fit import CPU_LARGEST, MILLI_LARGEST
from aliquot.core.placement.requests import RequestClass
from aliquot.core.placement.strategy import Candidates, Scores, tightest


class DotProduct:
    """score = int(100 * (1 - (cpu free * cpu / largest^2 + milli free * milli / largest^2) / 2)).

    Source: the baseline in Weng et al., Beware of Fragmentation, USENIX ATC 2023.
    """

    draws_lots: Final = False

    def score(self, candidates: Candidates, request: RequestClass) -> Scores:
        """Shares go on the tightest device."""
        milli_asked = request.devices * request.milli
        ratio = (CPU_LARGEST // MILLI_LARGEST) ** 2
        whole = 2 * CPU_LARGEST**2
        product = candidates.cpu_free * request.cpu + candidates.dev_free.sum(axis=1) * (milli_asked * ratio)
        return Scores(100 * (whole - product) // whole, tightest(candidates))
