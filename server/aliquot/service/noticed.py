"""Noticed: the rules of alerts, the alerts that are open, and what is on its way to receivers. Follows the log."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from aliquot_schema.ids import UserId
from aliquot_schema.notices import Alert, Delivery, NoticeMark, NoticeRule, Subscriber

R = TypeVar("R", Alert, Delivery)
Notice = NoticeRule | Alert | Delivery | Subscriber | NoticeMark

KINDS: Final = (NoticeRule, Alert, Delivery, Subscriber, NoticeMark)
"""In the order in which they are taken in."""


class Noticed:
    """What is over is not in memory."""

    def __init__(self) -> None:
        self.rules: dict[str, NoticeRule] = {}
        """Those that somebody changed."""
        self.alerts: dict[str, Alert] = {}
        """Those that are open."""
        self.deliveries: dict[str, Delivery] = {}
        """Those that are under way."""
        self.subscribers: dict[UserId, Subscriber] = {}
        self.mark: NoticeMark | None = None

    def put(self, record: Notice) -> None:
        """What is true from now on."""
        match record:
            case NoticeRule():
                self.rules[record.id] = record
            case Alert():
                _keep(self.alerts, record, is_over=record.closed_us is not None)
            case Delivery():
                _keep(self.deliveries, record, is_over=record.ended_us is not None)
            case Subscriber():
                self.subscribers[record.id] = record
            case NoticeMark():
                self.mark = record

    def find(self, kind: type, id_: str) -> Notice | None:
        """A record, as long as it is in memory."""
        if kind is NoticeMark:
            return self.mark
        kept: Mapping[type, Mapping[Any, Notice]] = {
            NoticeRule: self.rules,
            Alert: self.alerts,
            Delivery: self.deliveries,
            Subscriber: self.subscribers,
        }
        return kept[kind].get(id_)


def _keep(known: dict[str, R], record: R, *, is_over: bool) -> None:
    if is_over:
        known.pop(record.id, None)
    else:
        known[record.id] = record
