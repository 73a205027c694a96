"""Idle evictions: running sessions that lose their GPUs, because they do not use them and a waiting session starts.

The session is due by the steps of `core.idle_process`. A pass without it, or without several of them together,
shows whether a waiting session starts then; while none does, they keep their GPUs.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations, islice
from typing import Final

from msgspec.structs import replace

from aliquot.core.model.plan import Eviction, Placement, Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import RunningRow, Snapshot
from aliquot.core.scheduler.backfill import used_without
from aliquot.core.scheduler.free_capacity import FreeCapacity
from aliquot.core.scheduler.preemption import minimal
from aliquot_schema.ids import SessionId
from aliquot_schema.reasons import Evidence, Reason, Verdict
from aliquot_schema.sessions import PreemptionCause

DECIDED_MAX: Final = 4
"""Due sessions tried one by one in a pass, the longest idle first."""
SET_MAX: Final = 16
"""Due sessions of which several may be evicted for one waiting session, the longest idle first."""
SETS_MAX: Final = 32
"""Sets tried in a pass. If none of them is enough, all of `SET_MAX` are reduced to those that are all needed."""

Decide = Callable[[Snapshot, Policy], Plan]


def with_idle_evictions(plan: Plan, snapshot: Snapshot, policy: Policy, *, now_us: int, run: Decide) -> Plan:
    """The plan with the evictions of idle sessions, and the verdicts of the sessions that start on their GPUs.

    Args:
        run: one pass on a snapshot without idle sessions.
    """
    rows = {row.session_id: row for row in snapshot.running if row.session_id in snapshot.idle}
    leaving = {
        name: (hold.by_session, row.ends_us)
        for name, row in sorted(rows.items())
        if row.is_leaving and (hold := snapshot.idle[name]).by_session is not None
    }
    evictions = _evictions(plan, snapshot, policy, rows=rows, run=run)
    for eviction in evictions:
        assert eviction.by_session is not None
        leaving[eviction.session_id] = eviction.by_session, now_us + eviction.grace_ms * 1000
    verdicts = dict(plan.verdicts)
    for waiting in dict.fromkeys(by_session for by_session, _ in leaving.values()):
        if waiting not in verdicts:
            continue
        names = tuple(name for name, (by_session, _) in leaving.items() if by_session == waiting)
        idle_s = min(snapshot.idle[name].idle_us for name in names) // 1_000_000
        until_us = max(leaving[name][1] for name in names)
        evidence = Evidence(blocked_by=names, until_us=until_us, idle_s=idle_s)
        verdicts[waiting] = Verdict(reason=Reason.MAKING_ROOM, evidence=evidence)
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
    due.sort(key=lambda row: (-snapshot.idle[row.session_id].idle_us, row.session_id))
    found: dict[SessionId, SessionId] = {}
    for row in due[:DECIDED_MAX]:
        free = _without(state, [row], policy)
        gained = _gained(run(free, policy), plan, starting)
        if gained:
            state, starting = free, starting | {one.run_id for one in gained}
            found[row.session_id] = gained[0].session_id
    kept = [row for row in due if row.session_id not in found][:SET_MAX]
    if kept and len(due) > 1:
        found |= _together(plan, state, policy, kept, starting=starting, run=run)
    if not found:
        return ()
    owners = {one.session_id: one.owner for one in snapshot.queue}
    return tuple(
        Eviction(
            session_id=row.session_id,
            version=row.version,
            cause=PreemptionCause.IDLE,
            by_session=found[row.session_id],
            by_user=owners[found[row.session_id]],
            grace_ms=policy.preemption.grace_ms if row.grace_ms is None else row.grace_ms,
            ends=snapshot.idle[row.session_id].ends,
        )
        for row in due
        if row.session_id in found
    )


def _together(
    plan: Plan,
    state: Snapshot,
    policy: Policy,
    kept: Sequence[RunningRow],
    *,
    starting: AbstractSet[SessionId],
    run: Decide,
) -> dict[SessionId, SessionId]:
    """The smallest part of `kept` without which the first waiting session starts that starts without all of them.

    Args:
        kept: due sessions, the longest idle first; of parts of one size the first in this order is taken.
        starting: runs that start with all of them.
    Returns:
        The session that starts, by each session of the part.
    """
    placed = {one.run_id for one in plan.placements}

    def gained(some: Sequence[RunningRow]) -> list[SessionId]:
        after = run(_without(state, some, policy), policy)
        keeps = placed <= {one.run_id for one in after.placements}
        return [one.session_id for one in _gained(after, plan, starting)] if keeps else []

    target = next(iter(gained(kept)), None)
    if target is None:
        return {}
    needs = next(one.milli for one in state.queue if one.session_id == target)
    free = FreeCapacity(state, policy).free_milli()
    sets = (some for size in range(1, len(kept)) for some in combinations(kept, size))
    enough = (some for some in sets if free + sum(row.milli for row in some) >= needs)
    part: Sequence[RunningRow] | None = next(
        (some for some in islice(enough, SETS_MAX) if target in gained(some)), None
    )
    if part is None:
        part = minimal(kept, lambda some: target in gained(some))
    return {row.session_id: target for row in part}


def _gained(after: Plan, plan: Plan, starting: AbstractSet[SessionId]) -> list[Placement]:
    return [one for one in after.placements if one.run_id not in starting and one.session_id in plan.verdicts]


def _without(snapshot: Snapshot, gone: Sequence[RunningRow], policy: Policy) -> Snapshot:
    """The snapshot once these running sessions have ended."""
    names = {row.session_id for row in gone}
    return replace(
        snapshot,
        used=used_without(gone, capacity=FreeCapacity(snapshot, policy)),
        running=tuple(row for row in snapshot.running if row.session_id not in names),
    )
