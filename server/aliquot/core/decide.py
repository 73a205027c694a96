"""The one decision function. A pass is straight-line code: gate, order, place and backfill, reasons."""

from aliquot.core.aside import falling_back, set_aside, wake_at
from aliquot.core.at_once import last, turned_away, without
from aliquot.core.backfill import Scene
from aliquot.core.gate import gate
from aliquot.core.giving_way import giving_way
from aliquot.core.memo import Memo
from aliquot.core.ordering import in_order, order_named
from aliquot.core.ordering.score import Standing
from aliquot.core.plan import Plan
from aliquot.core.policy import Policy
from aliquot.core.queue import Queue
from aliquot.core.serving import Serving
from aliquot.core.snapshot import Snapshot


def decide(
    snapshot: Snapshot,
    policy: Policy,
    *,
    now_us: int,
    seed: int,
    known: Memo | None = None,
    explains: bool = True,
) -> Plan:
    """Decide who starts where, and why the others wait.

    Args:
        snapshot: the state; neither it nor anything in it is changed.
        now_us: microseconds UTC; never goes back from pass to pass.
        seed: for strategies that draw lots.
        known: what earlier passes found out and this one may use; changes the time it takes and nothing else.
        explains: False leaves out the reservation and the verdicts of who could start; the placements are the same.
    Returns:
        The same plan for the same input, whatever the order of its collections.
    Raises:
        InvalidRequest: the policy names an order or a placement that does not exist.
    """
    queue = Queue.of(snapshot.queue)
    memo = Memo() if known is None else known
    gated = gate(snapshot, policy, queue=queue, now_us=now_us, known=memo.feasibility)
    standing = Standing(
        queue=queue, usage=snapshot.usage, weights=policy.weights, now_us=now_us, quotas=snapshot.quotas
    )
    order = in_order(order_named(policy.order), standing)
    line = giving_way(order[gated.ready[order] == 1], gated.yields, queue=queue)
    line = last(line, gated.at_once)
    serving = Serving(queue, Scene(snapshot=snapshot, policy=policy, now_us=now_us, seed=seed, memo=memo))
    serving.serve(line)
    waiting = serving.verdicts(line) if explains else {}
    failures = gated.failures | turned_away(gated.at_once, serving.placements)
    plan = Plan(
        placements=tuple(serving.placements),
        failures={session_id: failures[session_id] for session_id in sorted(failures)},
        verdicts=without(waiting | set_aside(gated, queue, order), gated.at_once),
        wake_at_us=wake_at(gated, serving.asides),
        reservation=serving.promise() if explains else None,
        promises=tuple(serving.promises),
        evictions=serving.evictions,
        fallbacks=falling_back(gated, serving),
    )
    serving.leave()
    return plan
