"""Live.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.devices import Device
from aliquot.client.generated.kernels import Kernel
from aliquot.client.generated.sessions import Session


class AgentDevices(Struct, frozen=True, kw_only=True):
    """What is another way among the devices of one agent."""

    agent_id: str
    """The agent."""
    node_id: str
    """The host that it is on."""
    gpu_alloc_map: str
    """As of `Agent`."""
    devices: tuple[Device, ...]
    """Devices that are new or another way; in a snapshot, all."""
    devices_gone: tuple[str, ...]
    """Devices that it has no more."""


class DeviceUpdate(Struct, frozen=True, kw_only=True):
    """What changed among all devices since the update before."""

    number: int
    """Reconnect with `after` set to it to be told what changed since."""
    revision: int
    """The number of the last event that this knows of."""
    is_snapshot: bool
    """Whether this is everything: forget what you knew."""
    agents_gone: tuple[str, ...]
    """Forget these before you take in `agents`, where they may be back."""
    agents: tuple[AgentDevices, ...]
    """Agents of which something is another way."""


class SessionUpdate(Struct, frozen=True, kw_only=True):
    """One committed change of a session or of one of its kernels."""

    event_number: int
    """Reconnect with `after` set to it to miss nothing."""
    at: datetime
    """When it was committed."""
    kind: str
    """What happened, like session.running or kernel.exited; or snapshot."""
    is_snapshot: bool
    """Whether nothing happened, and this is how the session stands."""
    session: Session
    """
    The session: after its own change as right after it, else as it is when this is sent, which its kernels and places
    are in any case.
    """
    kernel: Kernel | None
    """The kernel that changed, as it was right after it; null when the session itself did."""
