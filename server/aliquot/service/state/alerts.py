"""Alert index: alert rules, open alerts and pending deliveries in memory, maintained from the event log."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar, get_args

from aliquot_schema.alerts import Alert, Delivery, NoticeMark, NoticeRule, Subscriber
from aliquot_schema.ids import UserId

R = TypeVar("R", Alert, Delivery)
Notice = NoticeRule | Alert | Delivery | Subscriber | NoticeMark

KINDS: Final[tuple[type[Notice], ...]] = get_args(Notice)
"""Kinds of records of this index."""


class AlertIndex:
    """Closed alerts and finished deliveries are not kept in memory."""

    def __init__(self) -> None:
        self.rules: dict[str, NoticeRule] = {}
        """Rules that differ from the defaults."""
        self.alerts: dict[str, Alert] = {}
        """Open alerts."""
        self.deliveries: dict[str, Delivery] = {}
        """Deliveries not finished."""
        self.subscribers: dict[UserId, Subscriber] = {}
        self.mark: NoticeMark | None = None

    def put(self, record: Notice) -> None:
        """Add or replace a record; one that is over is removed."""
        match record:
            case NoticeRule():
                self.rules[record.id] = record
            case Alert():
                _update(self.alerts, record, is_over=record.closed_us is not None)
            case Delivery():
                _update(self.deliveries, record, is_over=record.ended_us is not None)
            case Subscriber():
                self.subscribers[record.id] = record
            case NoticeMark():
                self.mark = record

    def find(self, kind: type, id_: str) -> Notice | None:
        """A record; None when it does not exist or is over."""
        if kind is NoticeMark:
            return self.mark
        kept: Mapping[type, Mapping[Any, Notice]] = {
            NoticeRule: self.rules,
            Alert: self.alerts,
            Delivery: self.deliveries,
            Subscriber: self.subscribers,
        }
        return kept[kind].get(id_)


def _update(known: dict[str, R], record: R, *, is_over: bool) -> None:
    if is_over:
        known.pop(record.id, None)
    else:
        known[record.id] = record
