"""Holdings of devices over time, as far as history needs them, and the port that reads them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from aliquot_schema.ids import AgentId, DeviceId, ProjectId, SessionId, SlotName, UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """So much of one slot of one accelerator, held by one lease."""

    owner: UserId
    project: ProjectId
    agent_id: AgentId
    device_id: DeviceId
    slot: SlotName
    amount: int
    """In the slot's base unit."""
    from_us: int
    ended_us: int
    """When it was given back, or the end of the time that was asked about."""


class HeldBook(Protocol):
    """The durable record of who held what. Every method may raise `StoreUnavailable`."""

    def between(self, since_us: int, until_us: int) -> AsyncIterator[tuple[Held, ...]]:
        """Accelerators that were held at any time between two moments, a page at a time."""

    async def whole_since_us(self) -> int:
        """What was given back before this may be missing: it was archived, or removed."""

    async def of_session(self, session_id: SessionId, until_us: int) -> tuple[Held, ...]:
        """Accelerators that a session ever held, in the order of the grants."""
