"""Doctor.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.enums import Discrepancy


class Difference(Struct, frozen=True, kw_only=True):
    """Something that the store, an agent and its devices do not agree about."""

    kind: Discrepancy
    """What does not agree with what."""
    agent_id: str
    """The agent that it was seen on."""
    subject: str
    """The kernel or the device."""
    evidence: str
    """What was seen."""
    since: datetime | None
    """Since when it is sure; null when it was seen just now, and may be gone with the next message."""
    repair: str | None
    """What the server does about it once it is sure."""


class Examination(Struct, frozen=True, kw_only=True):
    """What was found by asking every agent just now. Nothing was changed."""

    differences: tuple[Difference, ...]
    """By agent."""
    asked: tuple[str, ...]
    """Agents that answered."""
    silent: tuple[str, ...]
    """Agents that could not be asked."""
