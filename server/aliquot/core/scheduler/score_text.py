"""Score texts: the terms of a session's place in the queue and its bounds, for a person, in units of waiting."""

from typing import Final

import numpy as np

from aliquot.core.billing.budgets import Budgets, with_lowered
from aliquot.core.model.agent_index import AgentIndex
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import ESTIMATE_MS, LIMIT_MS, PRIORITY, QUEUED_US, Queue
from aliquot.core.model.snapshot import Snapshot
from aliquot.core.prediction import duration_text
from aliquot.core.scheduler.backlog import PARTS_OF_POOL, AgeScale, parts_of_pools, peak_ms, unit_ms, width_gain
from aliquot.core.scheduler.expected_ends import estimates_ms
from aliquot.core.scheduler.ordering import AGED, OrderInputs, fairness_term, relative_age_terms
from aliquot.core.scheduler.shares import PARTS_PER_ONE
from aliquot.core.scheduler.wait_bounds import order_bound_text
from aliquot_schema.ids import SessionId
from aliquot_schema.sessions import Priority

WIDE_PARTS: Final = PARTS_OF_POOL // 50
"""Smaller parts of a pool change the age by less than a hundredth, and are left out of the text."""


def explain_score(
    snapshot: Snapshot, policy: Policy, session_id: SessionId, *, now_us: int, index: AgentIndex
) -> str | None:
    """The terms of a waiting session's score, each in units of age and as a time of waiting, and who may pass it.

    Args:
        index: of the snapshot's agents.
    Returns:
        Under an order whose score has no terms, only who may pass it. None if the session does not wait.
    """
    lowered = Budgets(snapshot, prices=policy.prices, now_us=now_us).lowered()
    queue = Queue.of(with_lowered(snapshot, [row for row, _ in lowered]).queue)
    place = next((place for place, row in enumerate(queue.rows) if row.session_id == session_id), None)
    if place is None:
        return None
    backlog = snapshot.backlogs.get(queue[place].where.pool)
    age_unit_ms = unit_ms(backlog, now_us)
    expected_ms = estimates_ms(queue, snapshot.run_times)
    bounds = order_bound_text(policy, unit_ms=age_unit_ms, estimate_ms=int(expected_ms[place]))
    if policy.order not in AGED:
        return bounds
    units = np.full(len(queue), age_unit_ms, dtype=np.int64)
    inputs = OrderInputs(
        queue=queue,
        usage=snapshot.usage,
        weights=policy.weights,
        now_us=now_us,
        estimates_ms=expected_ms,
        scale=AgeScale(units_ms=units, parts=parts_of_pools(queue, index)),
        quotas=snapshot.quotas,
    )
    return f"{_terms(inputs, place, policy, unit_ms=age_unit_ms, backlog_ms=peak_ms(backlog, now_us))} {bounds}"


def _terms(inputs: OrderInputs, place: int, policy: Policy, *, unit_ms: int, backlog_ms: int) -> str:
    age, short, priority = (int(term[place]) for term in relative_age_terms(inputs))
    terms = [
        (_waited(inputs, place), age),
        (_length(inputs, place), short),
        (f"priority {Priority(int(inputs.queue.column(PRIORITY)[place])).name.lower()}", priority),
    ]
    if policy.order == "fair_share":
        fair = policy.weights.fair * int(fairness_term(inputs)[place])
        terms.append((f"use of its share counts {fair / max(policy.weights.fair, 1) / PARTS_PER_ONE:.2f} of 1", fair))
    weight = policy.weights.age
    (waited, points), *rest = ((what, points // weight) for what, points in terms)
    texts = [f"{waited}: +{points / PARTS_PER_ONE:.2f}", *(_term(what, more, unit_ms) for what, more in rest)]
    total = sum(points for _, points in terms) / weight / PARTS_PER_ONE
    backlog = f"an hour and the backlog of {duration_text(backlog_ms)}" if backlog_ms else "there is no backlog"
    return f"{'; '.join(texts)}; sum {total:.2f}. 1.00 is {duration_text(unit_ms)} of waiting: {backlog}."


def _waited(inputs: OrderInputs, place: int) -> str:
    waited_ms = max(inputs.now_us - int(inputs.queue.column(QUEUED_US)[place]), 0) // 1000
    part = int(inputs.scale.parts[place])
    wide = f", which count {1 + width_gain(part) / PARTS_OF_POOL:.2f} times for its size" if part >= WIDE_PARTS else ""
    return f"waited {duration_text(waited_ms)} of {duration_text(int(inputs.scale.units_ms[place]))}{wide}"


def _length(inputs: OrderInputs, place: int) -> str:
    """How long the session is expected to run, and by what."""
    expected_ms = int(inputs.estimates_ms[place])
    if inputs.queue.column(LIMIT_MS)[place] == expected_ms:
        return f"at most {duration_text(expected_ms)} long"
    if inputs.queue.column(ESTIMATE_MS)[place] >= 0:
        return f"{duration_text(expected_ms)} long by its owner's estimate"
    return f"{duration_text(expected_ms)} long"


def _term(what: str, points: int, unit_ms: int) -> str:
    worth = f" ({duration_text(points * unit_ms // PARTS_PER_ONE)} of waiting)" if points else ""
    return f"{what}: +{points / PARTS_PER_ONE:.2f}{worth}"
