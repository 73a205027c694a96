"""Changes of agents' keys, on their way from the commands that made them to the log."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from aliquot_schema.ids import AgentId


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """What somebody did to an agent's key."""

    id: str
    """`req_<uuid7>`: of the command."""
    agent_id: AgentId
    what: str
    """`created`, `replaced` or `revoked`."""
    by: str
    """`unix:<account>`."""
    at_us: int


class KeyChanges(Protocol):
    """Where they are until the log has them. Both may block, and raise OSError or ValueError."""

    def untold(self) -> Sequence[KeyChange]:
        """In the order in which they were made."""

    def told(self, ids: Collection[str]) -> None:
        """The log has these."""
