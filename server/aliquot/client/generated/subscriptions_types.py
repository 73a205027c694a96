"""Subscriptions types.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.agents import Device, Kernel
from aliquot.client.generated.sessions import Session


class AgentDevices(Struct, frozen=True, kw_only=True):
    """Changed devices of one agent."""

    agent_id: str
    """The agent."""
    node_id: str
    """The agent's host."""
    gpu_alloc_map: str
    """As in `Agent`."""
    devices: tuple[Device, ...]
    """New and changed devices; in a snapshot, all."""
    devices_gone: tuple[str, ...]
    """Removed devices."""


class DeviceUpdate(Struct, frozen=True, kw_only=True):
    """Changes of devices since the previous update."""

    number: int
    """Number of the update. Pass it as `after` to receive only later changes."""
    revision: int
    """Number of the last event included."""
    is_snapshot: bool
    """Whether this is the complete state, which replaces all earlier updates."""
    agents_gone: tuple[str, ...]
    """Agents to remove before applying `agents`, which may contain them again."""
    agents: tuple[AgentDevices, ...]
    """Agents with changed devices."""


class SessionUpdate(Struct, frozen=True, kw_only=True):
    """One committed change of a session or of one of its kernels."""

    event_number: int
    """Number of the event. Pass it as `after` to resume without gaps."""
    at: datetime
    """When it was committed."""
    kind: str
    """What happened, like `session.running` or `kernel.exited`; `snapshot` for the initial state."""
    is_snapshot: bool
    """Whether this is the initial state instead of a change."""
    session: Session
    """
    The session right after its own change, else as of sending. Its kernels and queue position are always as of sending.
    """
    kernel: Kernel | None
    """The changed kernel right after the change; null if the session itself changed."""
