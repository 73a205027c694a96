"""Ports of alerting: what its parts share, database queries, and senders."""

from typing import Protocol

from msgspec import Struct

from aliquot.service.alerts.message_texts import Message
from aliquot.service.ports import Clock, Ids
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot_schema.alerts import Alert, Delivery


class AlertContext(Struct, frozen=True, kw_only=True):
    """Dependencies shared by the parts of alerting on one server."""

    state: State
    journal: Journal
    clock: Clock
    ids: Ids


class AlertQuery(Struct, frozen=True, kw_only=True):
    """Alerts to list, newest first."""

    is_open: bool | None = None
    """None = all."""
    before: str | None = None
    """Only ids below this one; None = from the newest."""
    limit: int = 100


class DeliveryQuery(Struct, frozen=True, kw_only=True):
    """Deliveries to list, newest first."""

    notice_id: str | None = None
    before: str | None = None
    limit: int = 100


class NoticeRecords(Protocol):
    """Alerts and deliveries in the database. Every method may raise `StoreUnavailable`."""

    async def alerts(self, query: AlertQuery) -> tuple[Alert, ...]:
        """The newest matches, at most `query.limit`."""

    async def deliveries(self, query: DeliveryQuery) -> tuple[Delivery, ...]:
        """The newest matches, at most `query.limit`."""


class NotDelivered(Exception):
    """A receiver did not accept a message. The text contains no secrets."""

    def __init__(
        self, words: str, *, is_final: bool = False, is_message_specific: bool = False, wait_s: float = 0.0
    ) -> None:
        """
        Args:
            is_final: whether another attempt would fail too.
            is_message_specific: whether only this message failed, so that the receiver may accept others.
            wait_s: for how long the receiver asks for no further attempt.
        """
        super().__init__(words)
        self.is_final = is_final
        self.is_message_specific = is_message_specific
        self.wait_s = wait_s


class Sender(Protocol):
    """Delivers messages to one receiver."""

    async def deliver(self, message: Message) -> None:
        """Return once the receiver has confirmed the message.

        Raises:
            NotDelivered: the receiver refused it or did not answer.
        """
