"""What-if: what another policy, fewer or more agents, or one more session would change for waiting sessions.

Both states are run by the real policy: one pass for what happens now, and, for later, the engine in the future in which
every session runs for as long as planned. That future is one of many; it compares two states, and is no forecast.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.foresight.changes import without
from aliquot.core.foresight.engine import Future, starts, unsupported
from aliquot.core.foresight.remedies import Delay
from aliquot.core.model.plan import Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import Queue
from aliquot.core.model.snapshot import AgentRow, PendingRow, RunningRow, Snapshot
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.expected_ends import expected_end_us, planned_durations_ms
from aliquot_schema.ids import AgentId, NodeId, SessionId

DECIDED_MAX: Final = 200
"""Waiting sessions up to which a state is run that the fast engine does not support."""
HORIZON_US: Final = 30 * 86_400 * 1_000_000
"""Later starts are unknown."""
MINUTE_US: Final = 60_000_000
"""Smaller differences are not reported."""


class PlannedRun(Struct, frozen=True, kw_only=True):
    """What happens in one state, now and later."""

    now_us: int
    plan: Plan
    starts_us: Mapping[SessionId, int] | None
    """When waiting sessions start; None = it was not run, see `why_not`. Missing ones do not start in time."""
    why_not: str | None


class StateDifference(Struct, frozen=True, kw_only=True):
    """What one state has that another has not."""

    starting: tuple[SessionId, ...]
    """Sessions that start now only in the second state."""
    later: tuple[Delay, ...]
    """Sessions that start later in the second state; the largest difference first, unknown starts before all."""
    sooner: tuple[Delay, ...]
    waits_s: tuple[float, float] | None
    """Mean time until the start over the sessions that start in both, in seconds; None = none does."""


def planned_run(snapshot: Snapshot, policy: Policy, *, now_us: int, seed: int = 0) -> PlannedRun:
    """Run a state: one pass, and the future in which all sessions run for as long as planned."""
    plan = decide(snapshot, policy, now_us=now_us, seed=seed)
    why_not = unsupported(snapshot, policy)
    if why_not is not None and len(snapshot.queue) > DECIDED_MAX:
        return PlannedRun(now_us=now_us, plan=plan, starts_us=None, why_not=why_not)
    queue = Queue.of(snapshot.queue)
    planned_us = np.maximum(planned_durations_ms(queue, snapshot.run_times, policy) * 1000, 1).tolist()
    future = Future(
        left_us={held.session_id: expected_end_us(held, now_us=now_us) - now_us for held in snapshot.running},
        run_us={row.session_id: run_us for row, run_us in zip(queue, planned_us, strict=True)},
    )
    found = starts(snapshot, policy, future, now_us=now_us, seed=seed, until_us=now_us + HORIZON_US)
    starts_us = {name: started.at_us for name, started in found.items()}
    return PlannedRun(now_us=now_us, plan=plan, starts_us=starts_us, why_not=None)


def difference(before: PlannedRun, after: PlannedRun, *, apart: Collection[SessionId] = ()) -> StateDifference:
    """Compare two states.

    Args:
        apart: sessions that are in one of them only.
    """
    now = {placement.session_id for placement in before.plan.placements} | set(apart)
    starting = tuple(one.session_id for one in after.plan.placements if one.session_id not in now)
    old, new = _times(before), _times(after)
    if before.starts_us is None or after.starts_us is None:
        old, new = before.plan.promised_us(), after.plan.promised_us()
    both = [name for name in old if name in new and name not in apart]
    changed = [
        Delay(session_id=name, before_us=old.get(name), after_us=new.get(name))
        for name in dict.fromkeys((*old, *new))
        if name not in apart and name not in starting and abs(_gap_us(old.get(name), new.get(name))) >= MINUTE_US
    ]
    changed.sort(key=lambda delay: (-abs(_gap_us(delay.before_us, delay.after_us)), delay.session_id))
    mean_s = [
        sum(starts_us[name] - now_us for name in both) / max(len(both), 1) / 1e6
        for starts_us, now_us in ((old, before.now_us), (new, after.now_us))
    ]
    return StateDifference(
        starting=starting,
        later=tuple(one for one in changed if _gap_us(one.before_us, one.after_us) > 0),
        sooner=tuple(one for one in changed if _gap_us(one.before_us, one.after_us) < 0),
        waits_s=(mean_s[0], mean_s[1]) if both else None,
    )


def with_session(snapshot: Snapshot, row: PendingRow) -> Snapshot:
    """The snapshot with one more waiting session."""
    return replace(snapshot, queue=Queue.of(snapshot.queue).changed(joined=[row]))


def drained(
    snapshot: Snapshot, agent_id: AgentId, policy: Policy, *, requeued: Iterable[PendingRow] | None = None
) -> tuple[Snapshot, Sequence[RunningRow]]:
    """The snapshot with an agent that takes nothing new, and the sessions that are displaced.

    Args:
        requeued: rows of the sessions that run on it, which are preempted and wait again; None = they run to their end.
    """
    closed = tuple(replace(agent, is_open=False) if agent.id == agent_id else agent for agent in snapshot.agents)
    found = replace(snapshot, agents=closed)
    if requeued is None:
        return found, ()
    rows = {row.session_id: row for row in requeued}
    gone = [held for held in snapshot.running if held.session_id in rows and not held.is_leaving]
    joined = [rows[held.session_id] for held in gone]
    cleared = without(found, gone, policy=policy)
    return replace(cleared, queue=Queue.of(cleared.queue).changed(joined=joined)), gone


def running_on(snapshot: Snapshot, agent_id: AgentId) -> list[RunningRow]:
    """Sessions that hold devices on an agent."""
    return [held for held in snapshot.running if any(kernel.agent_id == agent_id for kernel in held.kernels)]


def with_agents_like(snapshot: Snapshot, agent: AgentRow, *, count: int) -> Snapshot:
    """The snapshot with more empty agents like one."""
    return replace(snapshot, agents=(*snapshot.agents, *agents_like(agent, count=count)))


def agents_like(agent: AgentRow, *, count: int) -> tuple[AgentRow, ...]:
    """More agents like one, each on a node of its own. They take sessions, even if that one does not."""
    return tuple(
        replace(agent, id=AgentId(f"{agent.id}+{number}"), node_id=NodeId(f"{agent.node_id}+{number}"), is_open=True)
        for number in range(1, count + 1)
    )


def _times(found: PlannedRun) -> dict[SessionId, int]:
    return dict(found.starts_us or {})


def _gap_us(before_us: int | None, after_us: int | None) -> int:
    """How much later the second start is; an unknown one is later than all others."""
    if before_us is None or after_us is None:
        return HORIZON_US * ((after_us is None) - (before_us is None))
    return after_us - before_us
