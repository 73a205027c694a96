"""What notices ask of the world: lists from the database, and couriers."""

from dataclasses import dataclass
from typing import Protocol

from aliquot.service.notices.letters import Letter
from aliquot_schema.notices import Alert, Delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertQuery:
    """Which alerts to list, the newest first."""

    is_open: bool | None = None
    """None = all."""
    before: str | None = None
    """Ids below this one alone."""
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryQuery:
    """Which deliveries to list, the newest first."""

    notice_id: str | None = None
    before: str | None = None
    limit: int = 100


class NoticeRecords(Protocol):
    """The outbox as the database has it. Every method may raise `StoreUnavailable`."""

    async def alerts(self, query: AlertQuery) -> tuple[Alert, ...]:
        """The newest that match."""

    async def deliveries(self, query: DeliveryQuery) -> tuple[Delivery, ...]:
        """The newest that match."""


class NotDelivered(Exception):
    """A receiver did not take a letter. The message has no secrets in it."""

    def __init__(self, words: str, *, is_final: bool = False, is_of_letter: bool = False) -> None:
        """
        Args:
            is_final: whether it would not take it the next time either.
            is_of_letter: whether it may well take letters for others.
        """
        super().__init__(words)
        self.is_final = is_final
        self.is_of_letter = is_of_letter


class Courier(Protocol):
    """Brings letters to one receiver."""

    async def deliver(self, letter: Letter) -> None:
        """Return once the receiver has said that it has the letter.

        Raises:
            NotDelivered: it has not, or did not say so.
        """
