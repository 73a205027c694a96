"""Random: any node on which the request fits."""

from typing import Final

import numpy as np

from aliquot.core.placement.requests import RequestClass
from aliquot.core.placement.strategy import Candidates, Scores, tightest


class RandomNode:
    """All score the same; the seed settles the tie."""

    draws_lots: Final = True

    def score(self, candidates: Candidates, request: RequestClass) -> Scores:  # noqa: ARG002 # one interface
        """Shares go on the tightest device."""
        return Scores(np.zeros(len(candidates.rows), dtype=np.int64), tightest(candidates))
