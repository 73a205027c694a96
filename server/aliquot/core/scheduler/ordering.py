"""Order policies: a score per pending row; the highest score is next, ties go to the earlier submission.

Relative age, which `fair_share` and `relative_age` go by, counts waiting in units of T = 1 h + the pool's backlog, see
`backlog`; the wait of a session that takes the whole pool counts 2.5 times, see `width_gain`.

Starvation bounds, with times in milliseconds: a session is never overtaken by one submitted later than

- relative_age: T x (short + 3 x priority) / age after it, if that one asks for no larger part of the pool: 2 T with the
  default weights, among sessions of one priority.
- fair_share: T x (fair + short + 3 x priority) / age after it, under the same condition.
- priority: (4 - p) x `level_ms` after it, where p is its level.
- sjf: its estimate / (`sjf_age_pct` / 100) after it.
- fcfs, gang: its own submission.
- las, srtf: no bound by order; only the policy's `wait_bound` gives one.

Under `las` and `srtf` preemptible sessions are displaced, see `preemption`. `las` (least attained service) puts
sessions into queues by the GPU-time they have had so far, each queue twice as wide as the one before. The least comes
first, and within a queue the earlier submission. Source: Gu et al., Tiresias, NSDI 2019 (discretized 2D-LAS). `srtf`
(shortest remaining time first) goes by the expected run time without the work that earlier attempts kept, times the
square root of the number of devices.
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from msgspec import Struct, field

from aliquot.core.fairshare import Usage
from aliquot.core.model.queue import ACCOUNT, KEPT_MS, LEAST_MILLI, PRIORITY, QUEUED_US, IntArray, Queue, first_places
from aliquot.core.scheduler.backlog import OVERRUN_DIVISOR, PARTS_OF_POOL, AgeScale, width_gain
from aliquot.core.scheduler.shares import PARTS_PER_ONE, Shares
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import QuotaId
from aliquot_schema.policies import Weights
from aliquot_schema.quotas import Quota
from aliquot_schema.resources.slots import MILLI
from aliquot_schema.sessions import Priority

DURATION_MAX_MS: Final = 10**12
"""32 years: keeps every score within 64 bits."""
LAS_QUANTUM_MS: Final = 600_000
"""The first queue of `las` holds sessions with less than this run time on one device."""
LAS_LIMITS: Final = LAS_QUANTUM_MS * MILLI * 2 ** np.arange(30, dtype=np.int64)
"""Upper ends of the queues, in milli of a device x milliseconds."""
LEFT_MS_MIN: Final = 60_000
PACKED_BITS_MAX: Final = 63
"""Of a signed integer of 64 bits."""


class OrderInputs(Struct, frozen=True, kw_only=True):
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

    score = age x (wait / T) x (1 + 3/2 x part of the pool) + short x h / (h + estimate) + priority x levels, where h is
    `short_half_ms`.
    """
    age, short, priority = relative_age_terms(inputs)
    return age + short + priority


def relative_age_terms(inputs: OrderInputs) -> tuple[IntArray, IntArray, IntArray]:
    """[rows] the terms of waiting, shortness and priority, each weighted and in millionths."""
    queue, weights, scale = inputs.queue, inputs.weights, inputs.scale
    waited_ms = np.maximum(inputs.now_us - queue.column(QUEUED_US), 0) // 1000
    age = np.minimum(waited_ms, DURATION_MAX_MS) * PARTS_PER_ONE // scale.units_ms
    age += age * width_gain(scale.parts) // PARTS_OF_POOL
    half_ms = weights.short_half_ms
    short = half_ms * PARTS_PER_ONE // (half_ms + np.minimum(inputs.estimates_ms, DURATION_MAX_MS))
    levels = (queue.column(PRIORITY) - Priority.LOW) * PARTS_PER_ONE
    return weights.age * age, weights.short * short, weights.priority * levels


def fair_share_score(inputs: OrderInputs) -> IntArray:
    """Relative age, and fair share among projects and their users; in millionths."""
    return relative_age_score(inputs) + inputs.weights.fair * fairness_term(inputs)


def fairness_term(inputs: OrderInputs) -> IntArray:
    """[rows] fairness term: higher, the less the user and the project have used of their shares."""
    accounts, numbers = inputs.queue.accounts(), inputs.queue.column(ACCOUNT)
    present = numbers[first_places(numbers)].tolist()
    waiting = [accounts[number] for number in present]
    shares = Shares(inputs.usage, waiting=waiting, quotas=inputs.quotas, now_us=inputs.now_us)
    by_number = np.zeros(len(accounts), dtype=np.int64)
    by_number[present] = [shares.fairness(*account) for account in waiting]
    terms: IntArray = by_number[numbers]
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


def las_score(inputs: OrderInputs) -> IntArray:
    """Least attained service: the number of the queue by GPU-time so far, negated."""
    queue = inputs.queue
    return -las_levels(queue.column(KEPT_MS), milli=queue.column(LEAST_MILLI))


def las_levels(had_ms: IntArray, *, milli: IntArray) -> IntArray:
    """[rows] number of the queue that sessions of this run time are in.

    Args:
        milli: accelerators; a session without any counts as one with a whole one.
    """
    had = np.minimum(had_ms, DURATION_MAX_MS) * np.maximum(milli, MILLI)
    levels: IntArray = np.searchsorted(LAS_LIMITS, had, side="right")
    return levels


def srtf_score(inputs: OrderInputs) -> IntArray:
    """Shortest remaining time first: the expected run time that is left, times the root of the devices, negated.

    A wide session takes the place of several others. Less than one device counts as one.
    """
    queue = inputs.queue
    expected_ms = np.minimum(inputs.estimates_ms, DURATION_MAX_MS)
    roots = np.sqrt(np.maximum(queue.column(LEAST_MILLI), MILLI) * MILLI).astype(np.int64)
    scores: IntArray = -left_ms("srtf", expected_ms=expected_ms, had_ms=queue.column(KEPT_MS)) * roots // MILLI
    return scores


def left_ms(order: str, *, expected_ms: IntArray, had_ms: IntArray) -> IntArray:
    """[rows] run time that sessions are expected to need yet, as a preemptive order sees it.

    `srtf`: by prediction; one that has outrun it needs another fifth of its time so far. `las`: as long again as it has
    run, at least `LAS_QUANTUM_MS`, since nothing else is known.
    """
    least_ms = LAS_QUANTUM_MS if order == "las" else LEFT_MS_MIN
    known_ms = had_ms if order == "las" else np.maximum(expected_ms - had_ms, had_ms // OVERRUN_DIVISOR)
    left: IntArray = np.maximum(known_ms, least_ms)
    return left


PREEMPTIVE: Final = ("las", "srtf")
"""Orders under which a session may displace others that come after it. They alone bound no wait."""
AGED: Final = frozenset({"fair_share", "relative_age"})
"""Orders that go by relative age."""
ORDERS: Final[Mapping[str, Score]] = {
    "fair_share": fair_share_score,
    "fcfs": fcfs_score,
    "gang": fcfs_score,
    "las": las_score,
    "priority": priority_score,
    "relative_age": relative_age_score,
    "sjf": sjf_score,
    "srtf": srtf_score,
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
    return sorted_places(-score(inputs))


def sorted_places(keys: IntArray) -> IntArray:
    """Positions of integer keys in ascending order, equal ones by position: `argsort(kind="stable")`, only faster.

    Keys and positions are packed into one integer where both have room in it, and numbers are faster to sort than
    positions.
    """
    if not len(keys):
        return np.zeros(0, dtype=np.int64)
    bits, least = (len(keys) - 1).bit_length(), int(keys.min())
    if (int(keys.max()) - least).bit_length() + bits > PACKED_BITS_MAX:
        return np.argsort(keys, kind="stable")
    packed: IntArray = ((keys - least) << bits) | np.arange(len(keys))
    packed.sort()
    return packed & ((1 << bits) - 1)
