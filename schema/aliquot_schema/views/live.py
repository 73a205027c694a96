"""Read models of subscriptions to sessions and devices, and of pieces of output."""

from datetime import datetime
from typing import Final

from msgspec import Struct

from aliquot_schema.views.agents import DeviceView
from aliquot_schema.views.sessions import KernelView, SessionView


class StreamPosition(Struct, frozen=True, kw_only=True):
    """Start position of a subscriber in a numbered stream."""

    known: int | None
    """Number of the last item the subscriber has; None = none, so the stream begins with a snapshot."""
    newest: int
    """Number of the newest item."""
    is_alike: bool = False
    """Whether every authenticated user may subscribe and receives the same items, so that one stream serves all."""
    snapshot_s: float | None = None
    """How long a snapshot may be reused, in seconds; None = without limit, as the items contain every later change."""


class SessionUpdateView(Struct, frozen=True, kw_only=True):
    """One committed change of a session or of one of its kernels."""

    event_number: int
    at: datetime
    kind: str
    """`session.running`, `kernel.exited`, ...; `snapshot` for the initial state."""
    is_snapshot: bool
    session: SessionView
    """State right after a change of the session itself, else at sending time. Kernels are always as of sending time."""
    kernel: KernelView | None
    """The changed kernel, right after the change."""


class AgentDevicesView(Struct, frozen=True, kw_only=True):
    """Changed devices of one agent."""

    agent_id: str
    node_id: str
    gpu_alloc_map: str
    """See `AgentView`."""
    devices: tuple[DeviceView, ...]
    """The changed ones; all in a snapshot."""
    devices_gone: tuple[str, ...]


class DeviceUpdateView(Struct, frozen=True, kw_only=True):
    """All changes of devices since the previous update."""

    number: int
    """Change counter of one server since its start; meaningless to other servers."""
    revision: int
    """Number of the last event included."""
    is_snapshot: bool
    agents: tuple[AgentDevicesView, ...]
    agents_gone: tuple[str, ...]
    """Agents to remove before `agents` is applied, which may contain them again."""


BYTES_MAX: Final = 1_048_576
"""Bytes per piece."""
BYTES_MIN: Final = 4
"""Longest UTF-8 character; a shorter piece might contain none."""


class SessionLogView(Struct, frozen=True, kw_only=True):
    """A piece of a kernel's output. Offsets and lengths are bytes."""

    session_id: str
    kernel_id: str
    rank: int
    attempt: int
    offset: int
    """Offset of the first byte of `text`."""
    next_offset: int
    """Offset of the next request."""
    length: int
    """Length of the output at reading time."""
    left_out: int
    """Bytes after the requested offset that are no longer stored."""
    has_more: bool
    """Whether there was more output at reading time."""
    text: str
    """Decoded as UTF-8; invalid bytes become U+FFFD."""
    at_end: bool
    """Whether the output is complete."""


class LogChunkView(Struct, frozen=True, kw_only=True):
    """A piece of a kernel's output."""

    session_id: str
    kernel_id: str
    rank: int
    offset: int
    """Offset of the first byte."""
    next_offset: int
    """Offset of the next request."""
    text: str
    """Decoded as UTF-8; invalid bytes become U+FFFD."""
    at_end: bool
