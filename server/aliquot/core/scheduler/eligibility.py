"""Eligibility filter: which pending sessions a pass considers, and the verdict for each of the others."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from msgspec.structs import replace

from aliquot.core.allocation.options import is_of_model
from aliquot.core.model.agent_index import AgentIndex
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import IS_PLAIN, KIND, IntArray, Queue, first_places
from aliquot.core.model.snapshot import PendingRow, PlacementConstraints, Snapshot
from aliquot.core.scheduler.feasibility import FeasibilityCache, feasible_agents
from aliquot_schema.bookings import Booking
from aliquot_schema.ids import SessionId
from aliquot_schema.reasons import Evidence, Reason, Verdict
from aliquot_schema.sessions import Dependency, DependencyCondition, Failure
from aliquot_schema.states import ENDED, SessionState

MET_BY: Final[Mapping[DependencyCondition, frozenset[SessionState]]] = {
    DependencyCondition.AFTER_OK: frozenset({SessionState.COMPLETED}),
    DependencyCondition.AFTER_ANY: ENDED,
    DependencyCondition.AFTER_FAIL: frozenset({SessionState.FAILED, SessionState.CANCELED}),
}

DEPENDENCY: Final = "dependency"
"""The code of a failure by a dependency that can no longer be met."""


@dataclass(slots=True, kw_only=True)
class EligibleQueue:
    """The queue after the filter."""

    ready: IntArray
    """[rows] 1 = eligible in this pass."""
    verdicts: dict[SessionId, Verdict] = field(default_factory=dict)
    failures: dict[SessionId, Failure] = field(default_factory=dict)
    fallbacks: dict[SessionId, int] = field(default_factory=dict)
    """Next fallback level of sessions whose fallback is due, unless they start in this pass."""
    preempted_for: dict[int, SessionId] = field(default_factory=dict)
    """The session that an eligible row was preempted for, by the row's position."""
    immediate: dict[SessionId, int] = field(default_factory=dict)
    """Positions of immediate sessions: they start in this pass or fail."""
    wake_at_us: int | None = None


def filter_eligible(
    snapshot: Snapshot,
    policy: Policy,
    *,
    queue: Queue,
    now_us: int,
    cache: FeasibilityCache | None = None,
    bookings: Iterable[Booking] = (),
) -> EligibleQueue:
    """Check every row by itself: dependencies, holds, pauses, and whether the open agents could run it when empty.

    A row that the open agents could never run is not eligible, so it does not block later rows.
    """
    eligible = EligibleQueue(ready=np.ones(len(queue), dtype=np.int64))
    for position in np.flatnonzero(queue.column(IS_PLAIN) == 0).tolist():
        _classify(queue[position], eligible, snapshot.dependencies, position=position, now_us=now_us)
    coming = {one.id: one for one in bookings if now_us < one.starts_us}
    for position, row in enumerate(queue) if coming else ():
        booking = None if row.booking is None else coming.get(row.booking)
        if booking is not None and eligible.ready[position]:
            evidence = Evidence(booking=booking.name, until_us=booking.starts_us)
            eligible.ready[position] = 0
            eligible.verdicts[row.session_id] = Verdict(reason=Reason.NOT_BEFORE, evidence=evidence)
    is_reachable = any(agent.is_open for agent in snapshot.agents)
    could_run = feasible_agents(snapshot, policy, cache=cache)
    kinds = queue.column(KIND)
    waiting = np.flatnonzero(eligible.ready)
    for first in first_places(kinds[waiting]).tolist():
        row = queue[int(waiting[first])]
        verdict = could_run(row) if is_reachable else Verdict(reason=Reason.CLUSTER_UNAVAILABLE)
        if verdict is not None:
            alike = waiting[kinds[waiting] == kinds[waiting[first]]]
            eligible.ready[alike] = 0
            eligible.verdicts |= {queue[position].session_id: verdict for position in alike.tolist()}
    return eligible


def _classify(
    row: PendingRow,
    eligible: EligibleQueue,
    dependencies: Mapping[SessionId, SessionState],
    *,
    position: int,
    now_us: int,
) -> None:
    if row.is_immediate:
        eligible.immediate[row.session_id] = position
    failure = broken_dependency(row.depends_on, dependencies)
    verdict = _reason_to_wait(row, dependencies, now_us=now_us)
    if failure is not None:
        eligible.failures[row.session_id] = failure
    elif verdict is not None:
        eligible.verdicts[row.session_id] = verdict
        eligible.wake_at_us = _earlier(eligible.wake_at_us, row.not_before_us, now_us=now_us)
    else:
        _note_fallback(row, eligible, now_us=now_us)
        if row.preempted_for is not None:
            eligible.preempted_for[position] = row.preempted_for
        return
    eligible.ready[position] = 0


def _note_fallback(row: PendingRow, eligible: EligibleQueue, *, now_us: int) -> None:
    if row.falls_back_us is not None and row.falls_back_us <= now_us:
        eligible.fallbacks[row.session_id] = row.fallback_level + 1
    eligible.wake_at_us = _earlier(eligible.wake_at_us, row.falls_back_us, now_us=now_us)


def _reason_to_wait(row: PendingRow, dependencies: Mapping[SessionId, SessionState], *, now_us: int) -> Verdict | None:
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


def broken_dependency(links: Iterable[Dependency], dependencies: Mapping[SessionId, SessionState]) -> Failure | None:
    """The failure of a session with a dependency that can no longer be met: it ended otherwise, or its record is gone.

    Args:
        dependencies: states of the sessions that are waited for.
    """
    for link in links:
        state = dependencies.get(link.session_id)
        if state is None:
            return Failure(code=DEPENDENCY, message=f"dependency {link.session_id} does not exist any more")
        if state in ENDED and state not in MET_BY[link.condition]:
            return Failure(
                code=DEPENDENCY, message=f"dependency {link.session_id} is {state}, so {link.condition} cannot be met"
            )
    return None


def _earlier(wake_at_us: int | None, then_us: int | None, *, now_us: int) -> int | None:
    if then_us is None or then_us <= now_us:
        return wake_at_us
    return then_us if wake_at_us is None else min(wake_at_us, then_us)


def preferred(where: PlacementConstraints, *, agent_index: AgentIndex) -> Iterator[PlacementConstraints]:
    """Soft constraints to try, the strictest first: preferred labels and models, labels alone, models alone, none; each
    on agents that hold the session's image, then on all.

    Each of them keeps the hard constraints.
    """
    for wish in (*_wishes(where, agent_index), where):
        if where.image:
            yield replace(wish, labels=tuple(sorted((*wish.labels, (where.image, "yes")))))
        if wish is not where:
            yield wish


def _wishes(where: PlacementConstraints, agent_index: AgentIndex) -> Iterator[PlacementConstraints]:
    if not (where.preferred_labels or where.preferred_models):
        return
    labels = tuple(sorted({**dict(where.preferred_labels), **dict(where.labels)}.items()))
    models = _models(where, agent_index)
    for wish in dict.fromkeys(((labels, models), (labels, where.models), (where.labels, models))):
        if wish != (where.labels, where.models):
            yield replace(where, labels=wish[0], models=wish[1])


def _models(where: PlacementConstraints, agent_index: AgentIndex) -> tuple[str, ...]:
    """Models that are both required and preferred, by name: one list of patterns cannot require two lists together."""
    if not (where.models and where.preferred_models):
        return where.preferred_models or where.models
    preferred_models = (model for model in agent_index.models if is_of_model(model, where.preferred_models))
    return tuple(model for model in preferred_models if is_of_model(model, where.models)) or where.models
