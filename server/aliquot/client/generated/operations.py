"""Operations.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.enums import Discrepancy, OrchestratorState, ServerRole


class Difference(Struct, frozen=True, kw_only=True):
    """A discrepancy between the server's records, an agent and its devices."""

    kind: Discrepancy
    """Kind of discrepancy."""
    agent_id: str
    """The agent."""
    subject: str
    """The kernel or the device."""
    evidence: str
    """What was observed."""
    since: datetime | None
    """When it was confirmed; null = unconfirmed, and possibly gone with the agent's next report."""
    repair: str | None
    """What the server does about it once it is confirmed."""


class Examination(Struct, frozen=True, kw_only=True):
    """Result of an inspection of all agents. Nothing was changed."""

    differences: tuple[Difference, ...]
    """Discrepancies, by agent."""
    asked: tuple[str, ...]
    """Agents that answered."""
    silent: tuple[str, ...]
    """Agents that could not be reached."""


class Orchestrator(Struct, frozen=True, kw_only=True):
    """State of the cluster's servers, as seen by the answering one."""

    role: ServerRole
    """Role of the answering server."""
    address: str
    """Address of the answering server."""
    leader_address: str | None
    """Address of the leader; null if no server leads, or the leader has no configured address."""
    epoch: int
    """Epoch of the newest term of leadership; agents reject orders of older ones."""
    leads_since: datetime | None
    """Start of that term; null if there was none yet."""
    state: OrchestratorState
    """Whether sessions are placed; shared by all servers and kept over restarts."""
    stopped_by: str | None
    """User who stopped it; null while it runs."""
    stopped_at: datetime | None
    """When it was stopped; null while it runs."""
    changed_by: str | None
    """User of the last stop or start; null = never changed. `system:settings` = a server setting."""
    changed_at: datetime | None
    """When it was last stopped or started."""
    note: str | None
    """Reason, in the operator's words."""
    is_demo: bool
    """Whether this is the living demo, whose users, history and load are invented."""
