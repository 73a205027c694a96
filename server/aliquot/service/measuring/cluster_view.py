"""The cluster as it is at one moment, copied from the state in one step, so that a thread can go through it at leisure.

Records are frozen, and mappings of a node are replaced and never changed: copies of what holds them are enough.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from aliquot.service.state import State
from aliquot_schema.agents import Agent
from aliquot_schema.devices import DeviceReading
from aliquot_schema.ids import AgentId, DeviceId, NodeId, SessionId
from aliquot_schema.reasons import Verdict
from aliquot_schema.sessions import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """What is counted of it."""

    agents: tuple[Agent, ...]
    reachable: frozenset[AgentId]
    readings: Mapping[tuple[AgentId, DeviceId], DeviceReading]
    used: Mapping[NodeId, Mapping[DeviceId, int]]
    blocked: Mapping[NodeId, Mapping[DeviceId, int]]
    """Devices that processes of others use."""
    sessions: tuple[Session, ...]
    verdicts: Mapping[SessionId, Verdict]
    users_holding: int
    now_us: int


def cluster_view(state: State, *, now_us: int) -> ClusterView:
    """Copy it."""
    owners = {lease.owner for leases in state.open_leases.values() for lease in leases.values()}
    return ClusterView(
        agents=tuple(state.agents.values()),
        reachable=frozenset(state.reachable),
        readings=dict(state.readings),
        used=dict(state.used),
        blocked=state.external.blocked,
        sessions=tuple(state.sessions.values()),
        verdicts=state.verdicts,
        users_holding=len(owners),
        now_us=now_us,
    )
