"""What follows from the event log, laid out for questions. It can be made anew from the log at any time."""

from typing import Any, Final

from sqlalchemy import Index, Table
from sqlmodel import Field

from aliquot.store.tables import INT, METADATA, TEXT, Row


def _key() -> Any:
    return Field(sa_type=TEXT, primary_key=True)


def _text() -> Any:
    return Field(sa_type=TEXT)


def _number() -> Any:
    return Field(sa_type=INT)


class HoldingRow(Row, table=True):
    """So much of one slot of one device, held by one lease from its grant to its release."""

    __tablename__ = "holdings"
    __table_args__ = (
        Index("ix_holdings_device", "device_id", "from_us"),
        Index("ix_holdings_ended", "ended_us", "lease_id", "device_id", "slot"),
    )

    lease_id: str = _key()
    device_id: str = _key()
    slot: str = _key()
    kind: str = _text()
    agent_id: str = _text()
    session_id: str | None = _text()
    owner: str = _text()
    amount: int = _number()
    from_us: int = _number()
    until_us: int | None = _number()
    """When it is to be given back; moved by a renewal."""
    ended_us: int | None = _number()
    """When it was given back; empty = it is held."""
    evidence: str | None = _text()
    pass_number: int | None = _number()
    """The pass that granted it."""
    granted_event: int = _number()
    ended_event: int | None = _number()
    preempted_us: int | None = _number()
    """When it was asked to make room."""
    preempted_by: str | None = _text()
    """The session that starts in its place, or the cause."""
    preempted_pass: int | None = _number()


class MarkRow(Row, table=True):
    """The last event that is in a table made of the log."""

    __tablename__ = "marks"

    id: str = _key()
    number: int = _number()


HOLDINGS: Final[Table] = METADATA.tables["holdings"]
MARKS: Final[Table] = METADATA.tables["marks"]
