"""Fair share among projects and their users, with a bonus for short sessions, priority, and age.

Starvation bound: a session is overtaken by nobody who comes later than `age_unit_ms` x (fair + short + 3 x priority)
/ age after it, since that is all that the other terms can differ by.
"""

from typing import Final

import numpy as np

from aliquot.core.guards import estimates_ms
from aliquot.core.ordering.score import Standing
from aliquot.core.queue import OWNER, PRIORITY, PROJECT, QUEUED_US, IntArray
from aliquot.core.shares import PARTS_PER_ONE, Shares
from aliquot_schema.sessions import Priority

DURATION_MAX_MS: Final = 10**12
"""32 years: keeps every term within 64 bits."""


def score(standing: Standing) -> IntArray:
    """The weighted sum of the terms, each in millionths."""
    queue, weights = standing.queue, standing.weights
    waited_us = np.maximum(standing.now_us - queue.column(QUEUED_US), 0)
    age = np.minimum(waited_us // 1000, DURATION_MAX_MS) * PARTS_PER_ONE // weights.age_unit_ms
    half_ms = weights.short_half_ms
    short = half_ms * PARTS_PER_ONE // (half_ms + np.minimum(estimates_ms(queue), DURATION_MAX_MS))
    levels = (queue.column(PRIORITY) - Priority.LOW) * PARTS_PER_ONE
    terms: IntArray = weights.age * age + weights.short * short + weights.priority * levels
    terms += weights.fair * _fair(standing)
    return terms


def _fair(standing: Standing) -> IntArray:
    """[rows] what each gets for how little it and its project have used of their shares."""
    queue = standing.queue
    owners, projects = queue.owners(), queue.projects()
    numbers = queue.column(PROJECT) * len(owners) + queue.column(OWNER)
    present, place = np.unique(numbers, return_inverse=True)
    waiting = [(projects[number // len(owners)], owners[number % len(owners)]) for number in present.tolist()]
    shares = Shares(standing.usage, waiting=waiting, quotas=standing.quotas, now_us=standing.now_us)
    terms: IntArray = np.array([shares.fairness(*one) for one in waiting], dtype=np.int64)[place]
    return terms
