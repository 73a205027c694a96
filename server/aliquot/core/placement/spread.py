"""Spread: the node with the largest part of its devices free, so that few share a node."""

from typing import Final

import numpy as np

from aliquot.core.placement.requests import RequestClass
from aliquot.core.placement.strategy import Candidates, Scores, tightest


class Spread:
    """score = milli free of each thousand that the node has; nodes without devices count by their free CPU alone."""

    draws_lots: Final = False

    def score(self, candidates: Candidates, request: RequestClass) -> Scores:  # noqa: ARG002 # one interface
        """Shares go on the tightest device, so that idle ones stay idle inside a node."""
        size = candidates.dev_size.sum(axis=1)
        free = candidates.dev_free.sum(axis=1)
        return Scores(np.where(size > 0, 1000 * free // np.maximum(size, 1), 0), tightest(candidates))
