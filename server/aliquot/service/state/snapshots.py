"""Snapshots: the immutable input of a scheduling pass, taken from the state between two events."""

from aliquot.core.model.snapshot import AgentRow, Snapshot
from aliquot.service.state.state import State
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.ids import SessionId, task_parts
from aliquot_schema.states import AgentState, SessionState


def take(state: State) -> Snapshot:
    """Take a snapshot. It shares rows with the state; all of them are immutable."""
    return Snapshot(
        revision=state.revision,
        agents=tuple(
            agent_row(state, agent, is_open=is_open(state, agent))
            for agent in state.agents.values()
            if is_present(agent) and agent.id not in state.faults.unusable
        ),
        used=state.foreign_usage.over(state.used),
        queue=state.queue_rows.queue(),
        dependencies=_dependencies(state),
        holders=dict(state.holders),
        asked=dict(state.asked),
        running=state.running_rows.rows(),
        usage=state.usage,
        quotas=state.quotas,
        run_times=state.run_times(),
        backlogs=state.backlogs.peaks,
    )


def is_present(agent: Agent) -> bool:
    """Whether its devices belong to the cluster, reachable or not."""
    return agent.state is not AgentState.LEFT


def is_open(state: State, agent: Agent) -> bool:
    """Whether new work may be placed on it."""
    is_ready = agent.state is AgentState.ALIVE and agent.id in state.reachable and agent.id not in state.faults.unusable
    return is_ready and agent.takes_work and state.space.allows(agent.id)


def agent_row(state: State, agent: Agent, *, is_open: bool) -> AgentRow:
    """The agent's row in a snapshot."""
    return state.agent_row(agent, is_open=is_open)


def _dependencies(state: State) -> dict[SessionId, SessionState]:
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
