"""Snapshots: the immutable input of a scheduling pass, taken from the state between two events."""

from aliquot.core.model.snapshot import Snapshot
from aliquot.service.state.state import State
from aliquot_schema.billing import statement_id
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.ids import SessionId, task_parts
from aliquot_schema.quotas import QuotaScope, quota_id
from aliquot_schema.states import AgentState, SessionState


def take(state: State, *, with_costs: bool = False) -> Snapshot:
    """Take a snapshot. It shares rows with the state; all of them are immutable.

    Args:
        with_costs: with the costs of all accounts, not only of those with a budget.
    """
    return Snapshot(
        revision=state.revision,
        agents=tuple(
            state.registry.row(agent, is_open=is_open(state, agent))
            for agent in state.agents.values()
            if is_present(agent) and agent.id not in state.faults.unusable
        ),
        used=state.foreign_usage.over(state.used),
        queue=state.queue_rows.queue(),
        dependencies=dependency_states(state),
        array_ends=array_ends(state),
        holders=dict(state.holders),
        asked=dict(state.asked),
        running=state.running_rows.rows(),
        usage=state.usage,
        quotas=state.quotas,
        run_times=state.forecasts.run_times(),
        backlogs=state.backlogs.peaks,
        bookings=state.bookings.open,
        costs=_costs(state, is_complete=with_costs),
        idle=state.idle_cases.holds,
    )


def _costs(state: State, *, is_complete: bool) -> dict[str, int]:
    """What the statements of accounts with a budget say, or of all; the cluster's is the sum of the projects'."""
    limited = {quota.id for quota in state.quotas.values() if quota.budget is not None}
    if not limited and not is_complete:
        return {}
    found = {one.id: one.cost for one in state.statements.values() if is_complete or one.account in limited}
    if (cluster := quota_id(QuotaScope.CLUSTER)) in limited or is_complete:
        for one in state.statements.values():
            if one.account.startswith(f"{QuotaScope.PROJECT}:"):
                total = statement_id(cluster, one.month)
                found[total] = found.get(total, 0) + one.cost
    return found


def is_present(agent: Agent) -> bool:
    """Whether its devices belong to the cluster, reachable or not."""
    return agent.state is not AgentState.LEFT


def is_open(state: State, agent: Agent) -> bool:
    """Whether new work may be placed on it."""
    is_ready = agent.state is AgentState.ALIVE and agent.id in state.reachable and agent.id not in state.faults.unusable
    return is_ready and agent.takes_work and state.disk_space.allows(agent.id)


def array_ends(state: State) -> dict[SessionId, SessionState]:
    """See `Snapshot.array_ends`."""
    found: dict[SessionId, SessionState] = {}
    for name in state.waited_for():
        array = state.sessions.get(name)
        if array is not None and array.tasks is not None and (array.tasks.failed or array.tasks.canceled):
            found[name] = SessionState.FAILED if array.tasks.failed else SessionState.CANCELED
    return found


def dependency_states(state: State) -> dict[SessionId, SessionState]:
    """States of dependencies; for a task without a session of its own, derived from its array."""
    found: dict[SessionId, SessionState] = {}
    for session_id in state.waited_for():
        array_id, index = task_parts(session_id)
        array = state.sessions.get(array_id)
        if session_id in state.sessions:
            found[session_id] = state.sessions[session_id].state
        elif array is not None and array.tasks is not None and index is not None:
            if index in array.tasks.waiting:
                found[session_id] = SessionState.QUEUED
            elif index in array.tasks.canceled:
                found[session_id] = SessionState.CANCELED
    return found
