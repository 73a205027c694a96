"""The one decision function. A pass is straight-line code: gate, order, place and backfill, reasons."""

from collections.abc import Mapping

from aliquot.core.backfill import Scene
from aliquot.core.gate import Gated, gate
from aliquot.core.memo import Memo
from aliquot.core.ordering import in_order, order_named
from aliquot.core.ordering.score import Standing
from aliquot.core.plan import Plan
from aliquot.core.policy import Policy
from aliquot.core.queue import IntArray, Queue
from aliquot.core.serving import Serving
from aliquot.core.snapshot import Snapshot
from aliquot_schema.ids import SessionId
from aliquot_schema.reasons import Reason, Verdict


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
    line = order[gated.ready[order] == 1]
    failures = {session_id: gated.failures[session_id] for session_id in sorted(gated.failures)}
    serving = Serving(queue, Scene(snapshot=snapshot, policy=policy, now_us=now_us, seed=seed, memo=memo))
    serving.serve(line)
    waiting = serving.verdicts(line) if explains else {}
    plan = Plan(
        placements=tuple(serving.placements),
        failures=failures,
        verdicts=waiting | _aside(gated, queue, order),
        wake_at_us=_wake_at(gated, waiting),
        reservation=serving.promise() if explains else None,
        promises=tuple(serving.promises),
        evictions=serving.evictions,
        fallbacks=_fallbacks(gated, serving),
    )
    serving.leave()
    return plan


def _wake_at(gated: Gated, waiting: Mapping[SessionId, Verdict]) -> int | None:
    """The first known time at which a gate or a quota opens."""
    opens = [verdict.evidence.until_us for verdict in waiting.values() if verdict.reason is Reason.QUOTA]
    known = [at_us for at_us in (gated.wake_at_us, *opens) if at_us is not None]
    return min(known, default=None)


def _fallbacks(gated: Gated, serving: Serving) -> dict[SessionId, int]:
    """Who starts now keeps what it asked for."""
    placed = {placement.session_id for placement in serving.placements}
    return {name: gated.fallbacks[name] for name in sorted(gated.fallbacks) if name not in placed}


def _aside(gated: Gated, queue: Queue, order: IntArray) -> dict[SessionId, Verdict]:
    """Why those wait that the gate held back, in the order that they would stand in."""
    if not gated.verdicts:
        return {}
    names = [queue[position].session_id for position in order[gated.ready[order] == 0].tolist()]
    return {name: gated.verdicts[name] for name in names if name in gated.verdicts}
