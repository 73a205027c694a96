"""By priority, with aging: waiting for `level_ms` is worth one level.

Starvation bound: a session of level p is overtaken by nobody who comes later than (4 - p) x `level_ms` after it.
"""

from aliquot.core.ordering.score import Standing
from aliquot.core.queue import PRIORITY, QUEUED_US, IntArray


def score(standing: Standing) -> IntArray:
    """level x level_ms - time of submission; the order of two sessions never changes while they wait."""
    queue = standing.queue
    return queue.column(PRIORITY) * (standing.weights.level_ms * 1000) - queue.column(QUEUED_US)
