"""The one decision function. A pass is straight-line code: gate, order, place, reasons."""

from aliquot.core.gate import gate
from aliquot.core.ordering import ORDERS
from aliquot.core.placement.placer import Placer
from aliquot.core.plan import Placement, Plan
from aliquot.core.policy import Policy
from aliquot.core.room import Room
from aliquot.core.shortage import shortage
from aliquot.core.snapshot import PendingRow, Snapshot
from aliquot_schema.ids import SessionId
from aliquot_schema.reasons import Evidence, Reason, Verdict


def decide(snapshot: Snapshot, policy: Policy, *, now_us: int, seed: int) -> Plan:
    """Decide who starts where, and why the others wait.

    Args:
        snapshot: the state; neither it nor anything in it is changed.
        now_us: microseconds UTC; never goes back from pass to pass.
        seed: for strategies that draw lots.
    Returns:
        The same plan for the same input, whatever the order of its collections.
    """
    gated = gate(snapshot, policy, now_us=now_us)
    line = ORDERS[policy.order](gated.ready)
    room = Room(snapshot, policy)
    placer = Placer(snapshot, policy, room=room, seed=seed)
    placements, waiting = _place(line, room, placer)
    aside = ORDERS[policy.order](row for row in snapshot.queue if row.session_id in gated.verdicts)
    verdicts = waiting | {row.session_id: gated.verdicts[row.session_id] for row in aside}
    failures = {session_id: gated.failures[session_id] for session_id in sorted(gated.failures)}
    return Plan(placements=placements, failures=failures, verdicts=verdicts, wake_at_us=gated.wake_at_us)


def _place(
    line: list[PendingRow], room: Room, placer: Placer
) -> tuple[tuple[Placement, ...], dict[SessionId, Verdict]]:
    """Serve the line in order, until one does not fit: those behind it wait for it."""
    placements: list[Placement] = []
    for index, row in enumerate(line):
        kernels = placer.place(row)
        if len(kernels) < row.cluster_size:
            head = shortage(row, room, fits_kernels=len(kernels))
            return tuple(placements), {row.session_id: head} | _behind(row, line[index + 1 :])
        placer.take(row.session_id, kernels)
        placements.append(Placement(session_id=row.session_id, version=row.version, kernels=kernels))
    return tuple(placements), {}


def _behind(head: PendingRow, rest: list[PendingRow]) -> dict[SessionId, Verdict]:
    waits = Verdict(reason=Reason.BEHIND_HEAD, evidence=Evidence(blocked_by=(head.session_id,)))
    return {row.session_id: waits for row in rest}
