"""Pack: devices in use first, then idle devices of nodes in use, then idle nodes."""

from typing import Final

import numpy as np

from aliquot.core.placement.requests import RequestClass
from aliquot.core.placement.strategy import Candidates, Scores, tightest


class Pack:
    """A device in use scores 100 less a tenth of its free percent, an idle one 50 less the devices opened, an idle
    node 33 less its devices. For a request without devices all nodes are equal.

    Source: GpuPacking, a baseline in Weng et al., Beware of Fragmentation, USENIX ATC 2023.
    """

    draws_lots: Final = False

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
