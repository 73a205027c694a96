"""Alert tables: rules, alerts, deliveries, subscribers and the position in the event log."""

from typing import Final

from sqlalchemy import Index, Table

from aliquot.store.columns import METADATA, TableRow, number_column, text_column, text_key, where


class RuleRow(TableRow, table=True):
    """`NoticeRule`."""

    __tablename__ = "notice_rules"

    id: str = text_key()
    version: int = number_column()
    is_on: bool
    threshold: int = number_column()
    floor: int = number_column()
    for_s: int = number_column()
    severity: int = number_column()
    muted_until_us: int | None = number_column()
    changed_us: int = number_column()


class AlertRow(TableRow, table=True):
    """`Alert`."""

    __tablename__ = "alerts"
    __table_args__ = (Index("ix_alerts_open", "id", **where("closed_us IS NULL")),)

    id: str = text_key()
    version: int = number_column()
    rule: str = text_column()
    subject: str = text_column()
    severity: int = number_column()
    words: str = text_column()
    owners: str = text_column()
    opened_us: int = number_column()
    told_us: int = number_column()
    closed_us: int | None = number_column()


class DeliveryRow(TableRow, table=True):
    """`Delivery`."""

    __tablename__ = "deliveries"
    __table_args__ = (
        Index("ix_deliveries_waiting", "id", **where("ended_us IS NULL")),
        Index("ix_deliveries_notice", "notice_id"),
    )

    id: str = text_key()
    version: int = number_column()
    receiver: str = text_column()
    kind: str = text_column()
    severity: int = number_column()
    is_over: bool
    subject: str = text_column()
    words: str = text_column()
    user: str | None = text_column()
    notice_id: str = text_column()
    state: str = text_column()
    tries: int = number_column()
    is_gathered: bool
    made_us: int = number_column()
    next_us: int = number_column()
    ended_us: int | None = number_column()
    error: str | None = text_column()


class SubscriberRow(TableRow, table=True):
    """`Subscriber`."""

    __tablename__ = "subscribers"

    id: str = text_key()
    version: int = number_column()
    email: str | None = text_column()
    notify: str = text_column()
    changed_us: int = number_column()


class NoticeMarkRow(TableRow, table=True):
    """`NoticeMark`."""

    __tablename__ = "notice_marks"

    id: str = text_key()
    version: int = number_column()
    number: int = number_column()


RULES: Final[Table] = METADATA.tables["notice_rules"]
ALERTS: Final[Table] = METADATA.tables["alerts"]
DELIVERIES: Final[Table] = METADATA.tables["deliveries"]
SUBSCRIBERS: Final[Table] = METADATA.tables["subscribers"]
NOTICE_MARKS: Final[Table] = METADATA.tables["notice_marks"]
