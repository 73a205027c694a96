"""Shortest job first by the estimate, with aging.

Starvation bound: a session is overtaken by nobody who comes later than its estimate / (`sjf_age_pct` / 100) after it.
"""

from typing import Final

import numpy as np

from aliquot.core.guards import estimates_ms
from aliquot.core.ordering.score import Standing
from aliquot.core.queue import QUEUED_US, IntArray

ESTIMATE_MAX_MS: Final = 10**12
"""32 years: keeps the score within 64 bits."""


def score(standing: Standing) -> IntArray:
    """wait x part - estimate, in hundredths of a millisecond; the order of two sessions never changes meanwhile."""
    queue = standing.queue
    waited_ms = (standing.now_us - queue.column(QUEUED_US)) // 1000
    scores: IntArray = waited_ms * standing.weights.sjf_age_pct - np.minimum(estimates_ms(queue), ESTIMATE_MAX_MS) * 100
    return scores
