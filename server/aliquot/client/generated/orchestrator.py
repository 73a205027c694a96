"""Orchestrator.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.enums import OrchestratorState, ServerRole


class Orchestrator(Struct, frozen=True, kw_only=True):
    """The servers of the cluster, as the one that answers sees them."""

    role: ServerRole
    """What the server that answers does."""
    address: str
    """Where it is reached."""
    leader_address: str | None
    """Where the one is that leads; null while nobody does, or does not say."""
    epoch: int
    """Of the newest term of a leader; agents refuse older ones."""
    leads_since: datetime | None
    """When that term began."""
    state: OrchestratorState
    """Of all servers together, and kept over restarts."""
    stopped_by: str | None
    """Who stopped it; null while it runs."""
    stopped_at: datetime | None
    """When; null while it runs."""
    changed_by: str | None
    """Who stopped or started it last; null when nobody ever did. `system:settings` is a setting."""
    changed_at: datetime | None
    """When that was."""
    note: str | None
    """Why, in that person's words."""
