"""The gate of a pass: who may be looked at now, and why the others may not."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from aliquot.core.feasibility import FeasibilityMemo, feasible_agents
from aliquot.core.policy import Policy
from aliquot.core.queue import IS_PLAIN, KIND, IntArray, Queue
from aliquot.core.snapshot import PendingRow, Snapshot
from aliquot_schema.ids import SessionId
from aliquot_schema.reasons import Evidence, Reason, Verdict
from aliquot_schema.sessions import Dependency, DependencyCondition, Failure
from aliquot_schema.states import ENDED, SessionState

MET_BY: Final[Mapping[DependencyCondition, frozenset[SessionState]]] = {
    DependencyCondition.AFTER_OK: frozenset({SessionState.COMPLETED}),
    DependencyCondition.AFTER_ANY: ENDED,
    DependencyCondition.AFTER_FAIL: frozenset({SessionState.FAILED, SessionState.CANCELED}),
}


@dataclass(slots=True, kw_only=True)
class Gated:
    """The queue after the gate."""

    ready: IntArray
    """[rows] 1 = may be looked at now."""
    verdicts: dict[SessionId, Verdict] = field(default_factory=dict)
    failures: dict[SessionId, Failure] = field(default_factory=dict)
    fallbacks: dict[SessionId, int] = field(default_factory=dict)
    """The next level of those that ask for less from now on, if they do not start in this pass."""
    yields: dict[int, SessionId] = field(default_factory=dict)
    """For whom rows that may be looked at made room, by their positions."""
    at_once: dict[SessionId, int] = field(default_factory=dict)
    """Positions of those that start now or not at all."""
    wake_at_us: int | None = None


def gate(
    snapshot: Snapshot, policy: Policy, *, queue: Queue, now_us: int, known: FeasibilityMemo | None = None
) -> Gated:
    """Look at every row by itself: dependencies, holds, pauses, and whether any open agent could run it when empty.

    A row that no open agent could run stands aside: it does not block those behind it.
    """
    gated = Gated(ready=np.ones(len(queue), dtype=np.int64))
    for position in np.flatnonzero(queue.column(IS_PLAIN) == 0).tolist():
        _look_at(queue[position], gated, snapshot.dependencies, position=position, now_us=now_us)
    is_reachable = any(agent.is_open for agent in snapshot.agents)
    could_run = feasible_agents(snapshot, policy, known=known)
    kinds = queue.column(KIND)
    waiting = np.flatnonzero(gated.ready)
    for first in np.unique(kinds[waiting], return_index=True)[1].tolist():
        row = queue[int(waiting[first])]
        verdict = could_run(row) if is_reachable else Verdict(reason=Reason.CLUSTER_UNAVAILABLE)
        if verdict is not None:
            alike = waiting[kinds[waiting] == kinds[waiting[first]]]
            gated.ready[alike] = 0
            gated.verdicts |= {queue[position].session_id: verdict for position in alike.tolist()}
    return gated


def _look_at(
    row: PendingRow, gated: Gated, dependencies: Mapping[SessionId, SessionState], *, position: int, now_us: int
) -> None:
    if row.at_once:
        gated.at_once[row.session_id] = position
    failure = _broken_dependency(row, dependencies)
    verdict = _own_reason(row, dependencies, now_us=now_us)
    if failure is not None:
        gated.failures[row.session_id] = failure
    elif verdict is not None:
        gated.verdicts[row.session_id] = verdict
        gated.wake_at_us = _sooner(gated.wake_at_us, row.not_before_us, now_us=now_us)
    else:
        _fall_back(row, gated, now_us=now_us)
        if row.made_room_for is not None:
            gated.yields[position] = row.made_room_for
        return
    gated.ready[position] = 0


def _fall_back(row: PendingRow, gated: Gated, *, now_us: int) -> None:
    if row.falls_back_us is not None and row.falls_back_us <= now_us:
        gated.fallbacks[row.session_id] = row.fallback_level + 1
    gated.wake_at_us = _sooner(gated.wake_at_us, row.falls_back_us, now_us=now_us)


def _own_reason(row: PendingRow, dependencies: Mapping[SessionId, SessionState], *, now_us: int) -> Verdict | None:
    if row.state is SessionState.HELD:
        return Verdict(reason=Reason.HELD)
    waits_for = tuple(link.session_id for link in row.depends_on if not _is_met(link, dependencies))
    if waits_for:
        return Verdict(reason=Reason.DEPENDENCY, evidence=Evidence(blocked_by=waits_for))
    if row.not_before_us is not None and row.not_before_us > now_us:
        return Verdict(reason=Reason.NOT_BEFORE, evidence=Evidence(until_us=row.not_before_us))
    return Verdict(reason=Reason.ARRAY_LIMIT) if row.tasks_startable == 0 else None


def _is_met(link: Dependency, dependencies: Mapping[SessionId, SessionState]) -> bool:
    state = dependencies.get(link.session_id)
    return state is not None and state in MET_BY[link.condition]


def _broken_dependency(row: PendingRow, dependencies: Mapping[SessionId, SessionState]) -> Failure | None:
    """A dependency that ended in the other way, or that is no longer kept, can never be met any more."""
    for link in row.depends_on:
        state = dependencies.get(link.session_id)
        if state is None:
            return Failure(code="dependency", message=f"{link.session_id}, which it waits for, is no longer kept")
        if state in ENDED and state not in MET_BY[link.condition]:
            return Failure(
                code="dependency", message=f"{link.session_id} is {state}, and it was to start {link.condition} of it"
            )
    return None


def _sooner(wake_at_us: int | None, then_us: int | None, *, now_us: int) -> int | None:
    if then_us is None or then_us <= now_us:
        return wake_at_us
    return then_us if wake_at_us is None else min(wake_at_us, then_us)
