"""Couriers, by the kind of receiver."""

from collections.abc import Callable, Iterable

from aliquot.delivery.receiver_tables import AnyReceiver, EmailTable, SlackTable
from aliquot.service.notices.handing import Address
from aliquot.service.notices.ports import Courier


def addresses_of(tables: Iterable[AnyReceiver], *, now_us: Callable[[], int]) -> dict[str, Address]:
    """By name."""
    return {
        table.name: Address(receiver=table.receiver(table.kind), courier=_courier(table, now_us)) for table in tables
    }


def _courier(table: AnyReceiver, now_us: Callable[[], int]) -> Courier:
    # Each imported here: without receivers a start does without clients for mail and for HTTP.
    if isinstance(table, EmailTable):
        from aliquot.delivery.mail import Mail

        return Mail(table)
    if isinstance(table, SlackTable):
        from aliquot.delivery.slack import Slack

        return Slack(table)
    from aliquot.delivery.webhook import Webhook

    return Webhook(table, now_us=now_us)
