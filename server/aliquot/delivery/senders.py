"""Senders: makes the sender for each configured receiver."""

from collections.abc import Callable, Iterable

from aliquot.delivery.receivers import AnyReceiver, EmailTable, SlackTable
from aliquot.service.alerts.context import Sender
from aliquot.service.alerts.outbox import Address


def addresses_of(tables: Iterable[AnyReceiver], *, now_us: Callable[[], int]) -> dict[str, Address]:
    """Addresses by the name of the receiver."""
    return {table.name: Address(receiver=table.receiver(table.kind), sender=_sender(table, now_us)) for table in tables}


def _sender(table: AnyReceiver, now_us: Callable[[], int]) -> Sender:
    # Imported here: a server without receivers does not load the mail and HTTP clients.
    if isinstance(table, EmailTable):
        from aliquot.delivery.smtp import Mail

        return Mail(table)
    if isinstance(table, SlackTable):
        from aliquot.delivery.webhook import Slack

        return Slack(table)
    from aliquot.delivery.webhook import Webhook

    return Webhook(table, now_us=now_us)
