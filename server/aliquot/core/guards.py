"""Guards: how long a session is reckoned to hold its devices. Long on purpose: somebody is promised a time by them."""

from typing import Final

import numpy as np

from aliquot.core.policy import Policy
from aliquot.core.queue import ESTIMATE_MS, LIMIT_MS, POOL, UNKNOWN, IntArray, Queue
from aliquot_schema.ids import PoolId
from aliquot_schema.sessions import DEFAULT_POOL

ESTIMATE_UNKNOWN_MS: Final = 3_600_000
"""Stands in where nobody knows how long a session runs."""
GUARD_FACTOR: Final = 10
"""Reserving by raw predictions doubled the mean completion time of the Philly log; the order may use them."""
GUARD_MIN_MS: Final = 3_600_000


def estimates_ms(queue: Queue) -> IntArray:
    """[rows] how long each row is expected to run, >= 0: what it is ordered by."""
    estimates = queue.column(ESTIMATE_MS)
    return np.where(estimates < 0, ESTIMATE_UNKNOWN_MS, estimates)


def guards_ms(queue: Queue, policy: Policy) -> IntArray:
    """[rows] the user's limit; without one the pool's default limit, else ten times the estimate, at least an hour.

    Only a user's limit ends a session; the others guard the reservation of the head and never kill.
    """
    limits = queue.column(LIMIT_MS)
    defaults = [policy.default_limit_ms(pool) for pool in queue.pools()]
    of_pool = np.array([UNKNOWN if limit is None else limit for limit in defaults], dtype=np.int64)[queue.column(POOL)]
    by_estimate = np.maximum(estimates_ms(queue) * GUARD_FACTOR, GUARD_MIN_MS)
    return np.where(limits < 0, np.where(of_pool < 0, by_estimate, of_pool), limits)


def guard_ms(*, estimate_ms: int | None, limit_ms: int | None, policy: Policy, pool: PoolId = DEFAULT_POOL) -> int:
    """`guards_ms` of one session."""
    if limit_ms is not None:
        return limit_ms
    default_ms = policy.default_limit_ms(pool)
    if default_ms is not None:
        return default_ms
    estimate = ESTIMATE_UNKNOWN_MS if estimate_ms is None else estimate_ms
    return max(estimate * GUARD_FACTOR, GUARD_MIN_MS)
