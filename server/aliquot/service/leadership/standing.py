"""Standing: which of several servers leads, as one of them sees it."""

from dataclasses import dataclass

from aliquot.service.projection_terms import moment, moment_or_none
from aliquot_schema.orchestration import Orchestration
from aliquot_schema.server_views import OrchestratorView
from aliquot_schema.server_views import ServerRole as ServerRole


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Of one server."""

    role: ServerRole
    address: str
    """Of this server; empty when nobody has told it."""
    leader_address: str | None
    """None: nobody leads now, or does not say where he is."""
    epoch: int
    """Of the newest term."""
    since_us: int | None
    """When that term began; None before the first."""


def orchestrator_view(standing: Standing, orchestration: Orchestration) -> OrchestratorView:
    """What people see of it."""
    by = orchestration.changed_by if orchestration.version else None
    at = moment(orchestration.changed_us) if orchestration.version else None
    return OrchestratorView(
        role=standing.role,
        address=standing.address,
        leader_address=standing.leader_address,
        epoch=standing.epoch,
        leads_since=moment_or_none(standing.since_us),
        state=orchestration.state,
        stopped_by=by if orchestration.is_stopped else None,
        stopped_at=at if orchestration.is_stopped else None,
        changed_by=by,
        changed_at=at,
        note=orchestration.note,
    )
