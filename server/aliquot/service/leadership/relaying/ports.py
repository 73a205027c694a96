"""What relaying asks of the database that the servers share."""

from dataclasses import dataclass
from typing import Protocol

from aliquot.service.leadership.relaying.sheet import Sheet


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The newest sheet of the present term."""

    epoch: int
    number: int
    age_s: float
    """Since its leader said that it holds, by the clock of the database."""
    sheet: Sheet | None
    """None: it is the one that is known."""


class ReadingsRelay(Protocol):
    """One sheet is kept. It is not durable, and may be gone at any time."""

    async def put(self, sheet: Sheet, *, epoch: int, number: int) -> bool:
        """Tell a new one.

        Args:
            number: another one than any before in this epoch.
        Returns:
            Whether that was done: not in an epoch that is over.
        Raises:
            StoreUnavailable: the database cannot be written.
        """

    async def keep(self, *, epoch: int, number: int) -> bool:
        """Say that a sheet holds still; returns whether it is there. Raises StoreUnavailable."""

    async def newest(self, *, known: tuple[int, int] | None) -> Told | None:
        """What the leader told last; None when the one of this term has told nothing.

        Args:
            known: epoch and number of the sheet that need not be read again.
        Raises:
            StoreUnavailable: the database cannot be read.
        """
