"""Fair share among users and projects, with a bonus for short sessions, priority, and age.

Starvation bound: a session is overtaken by nobody who comes later than `age_unit_ms` x (fair + short + 3 x priority)
/ age after it, since that is all that the other terms can differ by.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import numpy as np

from aliquot.core.fairshare import PARTS_PER_ONE, Account, Usage, fairness
from aliquot.core.guards import estimates_ms
from aliquot.core.ordering.score import Standing
from aliquot.core.queue import OWNER, PRIORITY, PROJECT, QUEUED_US, IntArray
from aliquot_schema.sessions import Priority

Name = TypeVar("Name")
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
    """[rows] the mean of what user and project get for having used little."""
    queue, usage, now_us = standing.queue, standing.usage, standing.now_us
    users = _by_account(queue.column(OWNER), queue.owners(), usage.users, usage, now_us=now_us)
    projects = _by_account(queue.column(PROJECT), queue.projects(), usage.projects, usage, now_us=now_us)
    return (users + projects) // 2


def _by_account(
    numbers: IntArray, names: Sequence[Name], accounts: Mapping[Name, Account], usage: Usage, *, now_us: int
) -> IntArray:
    present, place = np.unique(numbers, return_inverse=True)
    found = [
        fairness(accounts.get(names[number]), total=usage.total, accounts=len(accounts), now_us=now_us)
        for number in present.tolist()
    ]
    terms: IntArray = np.array(found, dtype=np.int64)[place]
    return terms
