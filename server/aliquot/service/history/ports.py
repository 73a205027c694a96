"""What history asks of its store."""

from dataclasses import dataclass
from typing import Protocol

from aliquot.service.history.grids import Curves, Grid
from aliquot.service.history.measures import Kind
from aliquot.service.history.samples import Sample
from aliquot_schema.errors import Unavailable


class HistoryUnavailable(Unavailable):
    """What was measured cannot be read now; nothing else is touched by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tended:
    """What a look at the store did."""

    written: int = 0
    """Blocks that sum up finer ones."""
    removed: int = 0


class HistoryStore(Protocol):
    """Measurements, apart from everything durable. What fails here fails nothing else."""

    def take(self, sample: Sample) -> None:
        """Keep a sample. Never waits; when samples come faster than they can be kept, the oldest go."""

    async def gathered(
        self, kind: Kind, name: str, grid: Grid, *, devices: frozenset[str] | None = None
    ) -> dict[str, Curves]:
        """What was measured, by device; coarser than the grid where nothing finer is kept any more.

        Args:
            name: the agent's id; empty for the queue.
            devices: these alone; None for all that there is something of.
        Raises:
            HistoryUnavailable: it cannot be read.
        """

    async def tend(self) -> Tended:
        """Sum up what is whole, and remove what is old. For the leader alone; tries again later what fails."""

    def least_step_s(self, since_us: int) -> float:
        """How fine what was measured at a time is kept."""

    @property
    def fault(self) -> str | None:
        """What does not work now, in words."""
