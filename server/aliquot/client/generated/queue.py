"""Queue.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.sessions import Session


class LogChunk(Struct, frozen=True, kw_only=True):
    """A piece of a kernel's output."""

    session_id: str
    """The session."""
    kernel_id: str
    """The kernel."""
    rank: int
    """The kernel's rank, from 0."""
    offset: int
    """Of the first byte of this piece."""
    next_offset: int
    """Reconnect with `offset` set to this one to go on."""
    text: str
    """UTF-8; bytes that are not are shown as U+FFFD."""
    at_end: bool
    """Whether nothing will follow."""


class QueueEntry(Struct, frozen=True, kw_only=True):
    """A place in the queue."""

    position: int
    """From 1, in the order in which the allocator looks."""
    session: Session
    """Who waits there."""


class QueueUpdate(Struct, frozen=True, kw_only=True):
    """One committed change of a session."""

    event_number: int
    """The queue's revision now. Reconnect with `after` set to it to miss nothing."""
    at: datetime
    """When it was committed."""
    kind: str
    """What happened, like session.running."""
    session: Session
    """The session as it was right after this event."""
    pending: int
    """How many sessions were queued or held right after this event; now, if it is long ago."""
