"""Read models of what is followed: a session as it moves, and devices as they change."""

from dataclasses import dataclass
from datetime import datetime

from aliquot_schema.views import DeviceView, KernelView, SessionView


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where somebody begins who follows a numbered stream."""

    known: int | None
    """The number of the last item that he knows; None = nothing, so that he is told first how all of it stands."""
    newest: int
    """The number of the newest item there is."""
    is_alike: bool = False
    """Whether everybody who may follow it is told the same, and everybody who may come in may follow it."""
    snapshot_s: float | None = None
    """How long it may be told how all of it stood; None = ever, as items tell of every change since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUpdateView:
    """One committed change of a session or of one of its kernels."""

    event_number: int
    at: datetime
    kind: str
    """`session.running`, `kernel.exited`, ...; `snapshot` when nothing changed."""
    is_snapshot: bool
    session: SessionView
    """Of its own change: as right after it. Else, and its kernels in any case, as when this is sent."""
    kernel: KernelView | None
    """The kernel that changed, as right after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDevicesView:
    """What is another way on one agent."""

    agent_id: str
    node_id: str
    gpu_alloc_map: str
    """See `AgentView`."""
    devices: tuple[DeviceView, ...]
    """Those that changed; of a snapshot, all."""
    devices_gone: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUpdateView:
    """Everything about devices that changed since the update before."""

    number: int
    """Counts the changes seen by one server since it started; to any other it is not known."""
    revision: int
    """The number of the last event that it knows of."""
    is_snapshot: bool
    agents: tuple[AgentDevicesView, ...]
    agents_gone: tuple[str, ...]
    """To be forgotten before `agents` is taken in, where they may be back."""
