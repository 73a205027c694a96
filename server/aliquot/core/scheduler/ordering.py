"""Order policies: a score per pending row; the highest score is next, ties go to the earlier submission.

Relative age, which `fair_share` and `relative_age` go by, counts waiting in units of T = 1 h + the pool's backlog, see
`backlog`; the wait of a session that takes the whole pool counts half as much again.

Starvation bounds, with times in milliseconds: a session is never overtaken by one submitted later than

- relative_age: T x (short + 3 x priority) / age after it, if that one asks for no larger part of the pool: 2 T with the
  default weights, among sessions of one priority.
- fair_share: T x (fair + short + 3 x priority) / age after it, under the same condition.
- priority: (4 - p) x `level_ms` after it, where p is its level.
- sjf: its estimate / (`sjf_age_pct` / 100) after it.
- fcfs, gang: its own submission.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from aliquot.core.fairshare import Usage
from aliquot.core.model.queue import OWNER, PRIORITY, PROJECT, QUEUED_US, IntArray, Queue
from aliquot.core.scheduler.backlog import PARTS_OF_POOL, AgeScale
from aliquot.core.scheduler.shares import PARTS_PER_ONE, Shares
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import QuotaId
from aliquot_schema.policies import Weights
from aliquot_schema.quotas import Quota
from aliquot_schema.sessions import Priority

DURATION_MAX_MS: Final = 10**12
"""32 years: keeps every score within 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderInputs:
    """State that a score is computed from."""

    queue: Queue
    usage: Usage
    weights: Weights
    now_us: int
    estimates_ms: IntArray
    """[rows] expected run times."""
    scale: AgeScale
    quotas: Mapping[QuotaId, Quota] = field(default_factory=dict)
    """Source of the weights of shares."""


Score = Callable[[OrderInputs], IntArray]
"""[rows of the queue] integers; the largest is next, among equals the row submitted first."""


def relative_age_score(inputs: OrderInputs) -> IntArray:
    """Relative age, with bonuses for short sessions and priority; in millionths.

    score = age x (wait / T) x (1 + part of the pool / 2) + short x h / (h + estimate) + priority x levels, where h is
    `short_half_ms`.
    """
    age, short, priority = relative_age_terms(inputs)
    return age + short + priority


def relative_age_terms(inputs: OrderInputs) -> tuple[IntArray, IntArray, IntArray]:
    """[rows] the terms of waiting, shortness and priority, each weighted and in millionths."""
    queue, weights, scale = inputs.queue, inputs.weights, inputs.scale
    waited_ms = np.maximum(inputs.now_us - queue.column(QUEUED_US), 0) // 1000
    age = np.minimum(waited_ms, DURATION_MAX_MS) * PARTS_PER_ONE // scale.units_ms
    age += age * (scale.parts // 2) // PARTS_OF_POOL
    half_ms = weights.short_half_ms
    short = half_ms * PARTS_PER_ONE // (half_ms + np.minimum(inputs.estimates_ms, DURATION_MAX_MS))
    levels = (queue.column(PRIORITY) - Priority.LOW) * PARTS_PER_ONE
    return weights.age * age, weights.short * short, weights.priority * levels


def fair_share_score(inputs: OrderInputs) -> IntArray:
    """Relative age, and fair share among projects and their users; in millionths."""
    return relative_age_score(inputs) + inputs.weights.fair * fairness_term(inputs)


def fairness_term(inputs: OrderInputs) -> IntArray:
    """[rows] fairness term: higher, the less the user and the project have used of their shares."""
    queue = inputs.queue
    owners, projects = queue.owners(), queue.projects()
    numbers = queue.column(PROJECT) * len(owners) + queue.column(OWNER)
    present, place = np.unique(numbers, return_inverse=True)
    waiting = [(projects[number // len(owners)], owners[number % len(owners)]) for number in present.tolist()]
    shares = Shares(inputs.usage, waiting=waiting, quotas=inputs.quotas, now_us=inputs.now_us)
    terms: IntArray = np.array([shares.fairness(*one) for one in waiting], dtype=np.int64)[place]
    return terms


def fcfs_score(inputs: OrderInputs) -> IntArray:
    """First come, first served: all scores are equal. A session requeued after a failed launch keeps its place."""
    return np.zeros(len(inputs.queue), dtype=np.int64)


def priority_score(inputs: OrderInputs) -> IntArray:
    """Priority with aging: waiting `level_ms` is worth one level. Waiting sessions never change their order."""
    queue = inputs.queue
    return queue.column(PRIORITY) * (inputs.weights.level_ms * 1000) - queue.column(QUEUED_US)


def sjf_score(inputs: OrderInputs) -> IntArray:
    """Shortest job first with aging: wait x `sjf_age_pct` - estimate x 100. Waiting sessions keep their order."""
    queue = inputs.queue
    waited_ms = (inputs.now_us - queue.column(QUEUED_US)) // 1000
    scores: IntArray = waited_ms * inputs.weights.sjf_age_pct - np.minimum(inputs.estimates_ms, DURATION_MAX_MS) * 100
    return scores


ORDERS: Final[Mapping[str, Score]] = {
    "fair_share": fair_share_score,
    "fcfs": fcfs_score,
    "gang": fcfs_score,
    "priority": priority_score,
    "relative_age": relative_age_score,
    "sjf": sjf_score,
}
"""Every policy starts a gang whole or not at all; `gang` is another name of `fcfs`."""


def order_named(name: str) -> Score:
    """The order policy of a name.

    Raises:
        InvalidRequest: unknown name; the message lists the known ones.
    """
    found = ORDERS.get(name)
    if found is None:
        raise InvalidRequest(f"order: {name[:64]!r} is unknown; use one of {', '.join(sorted(ORDERS))}", field="order")
    return found


def in_order(score: Score, inputs: OrderInputs) -> IntArray:
    """Positions of all rows of the queue, the next one first."""
    return np.argsort(-score(inputs), kind="stable")
