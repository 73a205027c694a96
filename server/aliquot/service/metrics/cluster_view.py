"""Cluster view: a consistent copy of the state for threads that compute metrics.

Shallow copies suffice: records are frozen, and a node's mappings are replaced, never changed.
"""

from collections.abc import Mapping

from msgspec import Struct, field

from aliquot.core.foresight.scoring import AccuracyReport
from aliquot.service.state.state import State
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.ids import AgentId, DeviceId, NodeId, SessionId
from aliquot_schema.reasons import Verdict
from aliquot_schema.resources.devices import DeviceReading
from aliquot_schema.sessions import Session


class ClusterView(Struct, frozen=True, kw_only=True):
    """The parts of the state that metrics use."""

    agents: tuple[Agent, ...]
    reachable: frozenset[AgentId]
    readings: Mapping[tuple[AgentId, DeviceId], DeviceReading]
    used: Mapping[NodeId, Mapping[DeviceId, int]]
    blocked: Mapping[NodeId, Mapping[DeviceId, int]]
    """Devices used by foreign processes."""
    sessions: tuple[Session, ...]
    verdicts: Mapping[SessionId, Verdict]
    users_holding: int
    now_us: int
    forecasts: AccuracyReport = field(default_factory=AccuracyReport)
    forecasts_us: int | None = None
    """When the forecasts of the whole queue were made last."""


def cluster_view(state: State, *, now_us: int) -> ClusterView:
    """Copy the state; on the event loop."""
    owners = {lease.owner for leases in state.open_leases.values() for lease in leases.values()}
    return ClusterView(
        agents=tuple(state.agents.values()),
        reachable=frozenset(state.reachable),
        readings=dict(state.readings),
        used=dict(state.used),
        blocked=state.foreign_usage.blocked,
        sessions=tuple(state.sessions.values()),
        verdicts=state.verdicts,
        users_holding=len(owners),
        now_us=now_us,
        forecasts=state.board.accuracy,
        forecasts_us=state.board.made_us,
    )
