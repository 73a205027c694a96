"""Queries types.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
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
    """Offset of the first byte."""
    next_offset: int
    """Offset of the next piece. Pass it as `offset` to resume."""
    text: str
    """The output decoded as UTF-8; invalid bytes become U+FFFD."""
    at_end: bool
    """Whether the output is complete."""


class QueueEntry(Struct, frozen=True, kw_only=True):
    """A queued session and its position."""

    position: int
    """From 1, in scheduling order. `queue_position` of a session counts those that wait for their turn."""
    session: Session
    """The session."""


class QueueUpdate(Struct, frozen=True, kw_only=True):
    """One committed change of a session."""

    event_number: int
    """Number of the event, the queue's new revision. Pass it as `after` to resume without gaps."""
    at: datetime
    """When it was committed."""
    kind: str
    """What happened, like `session.running`."""
    session: Session
    """The session right after this event."""
    pending: int
    """Number of sessions queued or held right after this event; for an old event, the current number."""
