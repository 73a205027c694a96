"""Kernels.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.amounts import SlotGrant
from aliquot.client.generated.enums import KernelState


class Kernel(Struct, frozen=True, kw_only=True):
    """One rank of one attempt of a session: one process tree on one agent."""

    id: str
    """`<session>.<attempt>.<rank>`."""
    session_id: str
    """Its session."""
    attempt: int
    """From 1."""
    rank: int
    """From 0."""
    agent_id: str
    """Where it runs."""
    state: KernelState
    """Where it is on its way."""
    resource_spec: tuple[SlotGrant, ...]
    """Exactly what it was given."""
    holds_devices: bool
    """Whether its devices are still held."""
    granted_at: datetime
    """When its devices were given to it."""
    started_at: datetime | None
    """When its process started."""
    ended_at: datetime | None
    """When the last of its processes was gone."""
    exit_code: int | None
    """Null while it runs, and when a signal ended it."""
    signal: int | None
    """The signal that ended it."""
    timed_out: bool
    """Whether the time limit ended it."""
    message: str | None
    """Why it could not be started, in words."""
