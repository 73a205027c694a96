"""Snapshots: what a pass decides on, taken from the state between two events."""

from collections import defaultdict

from aliquot.core.snapshot import AgentRow, Snapshot
from aliquot.service.state import State
from aliquot_schema.agents import Agent
from aliquot_schema.ids import DeviceId, NodeId, SessionId
from aliquot_schema.states import AgentState, SessionState


def take(state: State) -> Snapshot:
    """Freeze the state. Rows are shared with it; nothing that a snapshot holds is ever changed."""
    return Snapshot(
        revision=state.revision,
        agents=tuple(
            agent_row(state, agent, is_open=is_open(state, agent))
            for agent in state.agents.values()
            if is_present(agent)
        ),
        used=dict(state.used),
        queue=tuple(state.pending.values()),
        dependencies=_dependencies(state),
        holders=_holders(state),
        asked=dict(state.asked),
    )


def is_present(agent: Agent) -> bool:
    """Whether its devices count as part of the cluster, reachable or not."""
    return agent.state is not AgentState.LEFT


def is_open(state: State, agent: Agent) -> bool:
    """Whether it can be given something new."""
    return agent.state is AgentState.ALIVE and agent.schedulable and agent.id in state.reachable


def agent_row(state: State, agent: Agent, *, is_open: bool) -> AgentRow:
    """An agent, as far as placing is concerned."""
    return AgentRow(id=agent.id, node_id=agent.node_id, layout=state.layouts[agent.id], is_open=is_open)


def _dependencies(state: State) -> dict[SessionId, SessionState]:
    wanted = {link.session_id for row in state.pending.values() for link in row.depends_on}
    return {known: state.sessions[known].state for known in wanted if known in state.sessions}


def _holders(state: State) -> dict[tuple[NodeId, DeviceId], tuple[SessionId, ...]]:
    found: dict[tuple[NodeId, DeviceId], list[SessionId]] = defaultdict(list)
    for node_id, leases in state.open_leases.items():
        for lease in leases.values():
            if lease.session_id is not None:
                for amounts in lease.spec.values():
                    for device_id in amounts:
                        found[node_id, device_id].append(lease.session_id)
    return {key: tuple(sessions) for key, sessions in found.items()}
