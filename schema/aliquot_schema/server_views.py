"""Read models of the servers themselves."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from aliquot_schema.orchestration import OrchestratorState


class ServerRole(StrEnum):
    """What a server does beside answering."""

    LEADER = "leader"
    """It decides, launches, and listens to agents."""
    FOLLOWER = "follower"
    """It follows the log; another server leads, or is about to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorView:
    """The servers of a cluster, as one of them sees them."""

    role: ServerRole
    """Of the one that answers."""
    address: str
    """Of the one that answers."""
    leader_address: str | None
    """None: nobody leads now, or does not say where he is."""
    epoch: int
    """Of the newest term; each begins with a higher one."""
    leads_since: datetime | None
    """When that term began; None before the first."""
    state: OrchestratorState = OrchestratorState.RUNNING
    """Of all servers together."""
    stopped_by: str | None = None
    stopped_at: datetime | None = None
    """Both None while it runs."""
    changed_by: str | None = None
    changed_at: datetime | None = None
    """Who stopped or started it last; None when nobody ever did."""
    note: str | None = None
    """What that person said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorChanged:
    """What stopping or starting did."""

    orchestrator: OrchestratorView
    revision: int


ALONE: Final = OrchestratorView(role=ServerRole.LEADER, address="", leader_address=None, epoch=0, leads_since=None)
"""Of a server that was not told where it is."""
