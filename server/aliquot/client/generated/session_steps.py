"""Session steps.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.enums import SessionState
from aliquot.client.generated.sessions import Preemption


class SessionStep(Struct, frozen=True, kw_only=True):
    """A move of a session, as it was committed."""

    number: int
    """Of the event; rises from step to step."""
    at: datetime
    """When it was committed."""
    kind: str
    """What happened: `session.queued`, `session.requeued`, ..."""
    state: SessionState
    """Where it was from then on."""
    attempt: int
    """Its tries so far; 0 before the first."""
    held_by: str | None
    """Who held it back from then on."""
    preemption: Preemption | None
    """The last time, by then, that it was asked to make room."""
