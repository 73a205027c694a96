"""Tables of notices. A column is named like the record's field."""

from typing import Any, Final

from sqlalchemy import Index, Table, text
from sqlmodel import Field

from aliquot.store.tables import INT, METADATA, TEXT, Row


def _key() -> Any:
    return Field(sa_type=TEXT, primary_key=True)


def _text() -> Any:
    return Field(sa_type=TEXT)


def _number() -> Any:
    return Field(sa_type=INT)


class RuleRow(Row, table=True):
    """`NoticeRule`."""

    __tablename__ = "notice_rules"

    id: str = _key()
    version: int = _number()
    is_on: bool
    threshold: int = _number()
    floor: int = _number()
    for_s: int = _number()
    severity: int = _number()
    muted_until_us: int | None = _number()
    changed_us: int = _number()


class AlertRow(Row, table=True):
    """`Alert`."""

    __tablename__ = "alerts"
    __table_args__ = (
        Index(
            "ix_alerts_open", "id", sqlite_where=text("closed_us IS NULL"), postgresql_where=text("closed_us IS NULL")
        ),
    )

    id: str = _key()
    version: int = _number()
    rule: str = _text()
    subject: str = _text()
    severity: int = _number()
    words: str = _text()
    owners: str = _text()
    opened_us: int = _number()
    told_us: int = _number()
    closed_us: int | None = _number()


class DeliveryRow(Row, table=True):
    """`Delivery`."""

    __tablename__ = "deliveries"
    __table_args__ = (
        Index(
            "ix_deliveries_waiting",
            "id",
            sqlite_where=text("ended_us IS NULL"),
            postgresql_where=text("ended_us IS NULL"),
        ),
        Index("ix_deliveries_notice", "notice_id"),
    )

    id: str = _key()
    version: int = _number()
    receiver: str = _text()
    kind: str = _text()
    severity: int = _number()
    is_over: bool
    subject: str = _text()
    words: str = _text()
    user: str | None = _text()
    notice_id: str = _text()
    state: str = _text()
    tries: int = _number()
    is_gathered: bool
    made_us: int = _number()
    next_us: int = _number()
    ended_us: int | None = _number()
    error: str | None = _text()


class SubscriberRow(Row, table=True):
    """`Subscriber`."""

    __tablename__ = "subscribers"

    id: str = _key()
    version: int = _number()
    email: str | None = _text()
    notify: str = _text()
    changed_us: int = _number()


class NoticeMarkRow(Row, table=True):
    """`NoticeMark`."""

    __tablename__ = "notice_marks"

    id: str = _key()
    version: int = _number()
    number: int = _number()


RULES: Final[Table] = METADATA.tables["notice_rules"]
ALERTS: Final[Table] = METADATA.tables["alerts"]
DELIVERIES: Final[Table] = METADATA.tables["deliveries"]
SUBSCRIBERS: Final[Table] = METADATA.tables["subscribers"]
NOTICE_MARKS: Final[Table] = METADATA.tables["notice_marks"]
