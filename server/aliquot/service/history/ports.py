"""Ports of history: the time-series store and the record of holdings."""

from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct

from aliquot.service.history.grids import Curves, Grid
from aliquot.service.history.measures import MeasureKind, Sample
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import AgentId, DeviceId, ProjectId, SessionId, SlotName, UserId


class HistoryUnavailable(Unavailable):
    """History cannot be read now. Nothing else is affected."""


class MaintenanceResult(Struct, frozen=True, kw_only=True):
    """Result of one maintenance pass."""

    written: int = 0
    """Roll-up blocks written."""
    removed: int = 0


class HistoryStore(Protocol):
    """Time-series store, separate from the durable state: its failures affect nothing else."""

    def take(self, sample: Sample) -> None:
        """Store a sample without blocking; when samples arrive too fast the oldest are dropped."""

    async def gathered(
        self, kind: MeasureKind, name: str, grid: Grid, *, devices: frozenset[str] | None = None
    ) -> dict[str, Curves]:
        """Measurements by device, coarser than the grid where no finer ones are kept.

        Args:
            name: the agent's id; empty for the queue.
            devices: only these; None = all with measurements.
        Raises:
            HistoryUnavailable: the store cannot be read.
        """

    async def maintain(self) -> MaintenanceResult:
        """Roll up complete windows and remove expired ones. Runs on the leader; failures are retried by the next
        call."""

    def least_step_s(self, since_us: int) -> float:
        """The finest step kept for a time."""

    @property
    def fault(self) -> str | None:
        """Why the store does not work now; None = it works."""


class HeldAmount(Struct, frozen=True, kw_only=True):
    """An amount of one slot of one accelerator, held by one lease."""

    owner: UserId
    project: ProjectId
    agent_id: AgentId
    device_id: DeviceId
    slot: SlotName
    amount: int
    """In the slot's base unit."""
    from_us: int
    ended_us: int
    """Release, or the end of the queried range."""


class HoldingRecords(Protocol):
    """Durable record of holdings. Every method may raise `StoreUnavailable`."""

    def between(self, since_us: int, until_us: int) -> AsyncIterator[tuple[HeldAmount, ...]]:
        """Accelerators held at any time in a range, page by page."""

    async def whole_since_us(self) -> int:
        """Holdings released before this time may be missing: they were archived or removed."""

    async def of_session(self, session_id: SessionId, until_us: int) -> tuple[HeldAmount, ...]:
        """Accelerators that a session ever held, in the order of the grants."""

    async def spans_of_session(self, session_id: SessionId, until_us: int) -> tuple[tuple[int, int], ...]:
        """(from, until) in microseconds of each time in which a session held devices of any kind."""
