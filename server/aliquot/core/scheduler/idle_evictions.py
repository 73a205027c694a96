"""Idle evictions: running sessions that lose their GPUs, because they do not use them and a waiting session starts.

The session is due by the steps of `core.idle_process`. A pass without it shows whether a waiting session starts then;
while none does, it keeps its GPUs.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from aliquot.core.model.plan import Eviction, Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import IdleHold, RunningRow, Snapshot
from aliquot.core.scheduler.backfill import used_without
from aliquot.core.scheduler.free_capacity import FreeCapacity
from aliquot_schema.ids import SessionId
from aliquot_schema.reasons import Evidence, Reason, Verdict
from aliquot_schema.sessions import PreemptionCause

DECIDED_MAX: Final = 4
"""Due sessions looked at in one pass, the longest idle first."""

Decide = Callable[[Snapshot, Policy], Plan]


def with_idle_evictions(plan: Plan, snapshot: Snapshot, policy: Policy, *, now_us: int, run: Decide) -> Plan:
    """The plan with the evictions of idle sessions, and the verdicts of the sessions that start for them.

    Args:
        run: one pass on a snapshot without idle sessions.
    """
    rows = {row.session_id: row for row in snapshot.running if row.session_id in snapshot.idle}
    verdicts = dict(plan.verdicts)
    for name, row in sorted(rows.items()):
        hold = snapshot.idle[name]
        if hold.by_session is not None and row.is_leaving:
            _note_room(verdicts, hold.by_session, row, hold, until_us=row.ends_us)
    evictions = _evictions(plan, snapshot, policy, rows=rows, run=run)
    for eviction in evictions:
        assert eviction.by_session is not None
        hold, row = snapshot.idle[eviction.session_id], rows[eviction.session_id]
        _note_room(verdicts, eviction.by_session, row, hold, until_us=now_us + eviction.grace_ms * 1000)
    if not evictions and verdicts == plan.verdicts:
        return plan
    return replace(plan, evictions=(*plan.evictions, *evictions), verdicts=verdicts)


def _evictions(
    plan: Plan, snapshot: Snapshot, policy: Policy, *, rows: Mapping[SessionId, RunningRow], run: Decide
) -> tuple[Eviction, ...]:
    leaving = {eviction.session_id for eviction in plan.evictions}
    due = [
        row
        for name, row in rows.items()
        if snapshot.idle[name].by_session is None and not row.is_leaving and name not in leaving
    ]
    if not plan.verdicts or not due:
        return ()
    state, starting = snapshot, {placement.run_id for placement in plan.placements}
    gone = [row for row in snapshot.running if row.is_leaving or row.session_id in leaving]
    if gone:  # what starts on the GPUs of these needs no others
        state = _without(snapshot, gone, policy)
        starting |= {placement.run_id for placement in run(state, policy).placements}
    found = []
    for row in sorted(due, key=lambda row: (-snapshot.idle[row.session_id].idle_us, row.session_id))[:DECIDED_MAX]:
        free = _without(state, [row], policy)
        after = run(free, policy)
        gained = [one for one in after.placements if one.run_id not in starting and one.session_id in plan.verdicts]
        if not gained:
            continue
        state, starting = free, starting | {one.run_id for one in gained}
        owners = {one.session_id: one.owner for one in snapshot.queue}
        first = gained[0].session_id
        found.append(
            Eviction(
                session_id=row.session_id,
                version=row.version,
                cause=PreemptionCause.IDLE,
                by_session=first,
                by_user=owners[first],
                grace_ms=policy.preemption.grace_ms if row.grace_ms is None else row.grace_ms,
                ends=snapshot.idle[row.session_id].ends,
            )
        )
    return tuple(found)


def _without(snapshot: Snapshot, gone: Sequence[RunningRow], policy: Policy) -> Snapshot:
    """The snapshot once these running sessions have ended."""
    names = {row.session_id for row in gone}
    return replace(
        snapshot,
        used=used_without(gone, capacity=FreeCapacity(snapshot, policy)),
        running=tuple(row for row in snapshot.running if row.session_id not in names),
    )


def _note_room(
    verdicts: dict[SessionId, Verdict], name: SessionId, row: RunningRow, hold: IdleHold, *, until_us: int
) -> None:
    """Tell a session that still waits for whose GPUs it waits."""
    if name in verdicts:
        idle_s = hold.idle_us // 1_000_000
        evidence = Evidence(blocked_by=(row.session_id,), until_us=until_us, idle_s=idle_s)
        verdicts[name] = Verdict(reason=Reason.MAKING_ROOM, evidence=evidence)
