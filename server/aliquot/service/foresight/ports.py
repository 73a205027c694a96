"""Ports of the forecasts: the durable records, and the relay to the followers."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from aliquot.core.foresight.shown_forecasts import ForecastRecord, PackedRecord, SessionOutcome


class ForecastStore(Protocol):
    """Durable forecast records. Every method may raise `StoreUnavailable`."""

    async def add(self, records: Sequence[PackedRecord]) -> None:
        """Insert records; those of the same session and age that exist are kept as they are."""

    async def settle(self, settlements: Sequence[SessionOutcome]) -> None:
        """Set the outcomes of all records of these sessions, in order."""

    async def open_records(self, *, since_us: int) -> tuple[PackedRecord, ...]:
        """Records made since then whose sessions waited, or ran, when this was last written."""

    async def settled(self, *, limit: int) -> tuple[PackedRecord, ...]:
        """The newest first forecasts of sessions that wait no longer, oldest first."""

    async def page(self, after: ForecastRecord | None, *, since_us: int, limit: int) -> tuple[ForecastRecord, ...]:
        """The next records in the order of their making, beginning at a time."""

    async def count_at_once(self, day: int, count: int) -> None:
        """Add to the number of sessions of a day that started without waiting for a forecast.

        Args:
            day: days since 1970-01-01 UTC.
        """

    async def days(self) -> tuple[tuple[int, int], ...]:
        """(day, number of sessions that started before any forecast), by day."""

    async def remove(self, before_us: int, *, limit: int) -> int:
        """Delete some records made before a time, and the days before it; returns the number of records."""


class PublishedBoard(Struct, frozen=True, kw_only=True):
    """What the leader published last."""

    epoch: int
    number: int
    body: bytes


class BoardRelay(Protocol):
    """Storage of the newest forecasts for the followers; not durable. Every method may raise `StoreUnavailable`."""

    async def put(self, board: PublishedBoard) -> None:
        """Publish; no effect if a later term has begun."""

    async def newest(self, known: tuple[int, int]) -> PublishedBoard | None:
        """What the leader of the present term published; None when there is nothing, or the caller has it.

        Args:
            known: (epoch, number) of what the caller has.
        """
