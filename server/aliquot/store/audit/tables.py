"""What follows from the event log, laid out for questions. It can be made anew from the log at any time."""

from typing import Final

from sqlalchemy import Index, Table

from aliquot.store.columns import METADATA, Row, number_column, text_column, text_key


class HoldingRow(Row, table=True):
    """So much of one slot of one device, held by one lease from its grant to its release."""

    __tablename__ = "holdings"
    __table_args__ = (
        Index("ix_holdings_device", "device_id", "from_us"),
        Index("ix_holdings_ended", "ended_us", "lease_id", "device_id", "slot"),
    )

    lease_id: str = text_key()
    device_id: str = text_key()
    slot: str = text_key()
    kind: str = text_column()
    agent_id: str = text_column()
    session_id: str | None = text_column()
    owner: str = text_column()
    amount: int = number_column()
    from_us: int = number_column()
    until_us: int | None = number_column()
    """When it is to be given back; moved by a renewal."""
    ended_us: int | None = number_column()
    """When it was given back; empty = it is held."""
    evidence: str | None = text_column()
    pass_number: int | None = number_column()
    """The pass that granted it."""
    granted_event: int = number_column()
    ended_event: int | None = number_column()
    preempted_us: int | None = number_column()
    """When it was asked to make room."""
    preempted_by: str | None = text_column()
    """The session that starts in its place, or the cause."""
    preempted_pass: int | None = number_column()


class MarkRow(Row, table=True):
    """The last event that is in a table made of the log."""

    __tablename__ = "marks"

    id: str = text_key()
    number: int = number_column()


HOLDINGS: Final[Table] = METADATA.tables["holdings"]
MARKS: Final[Table] = METADATA.tables["marks"]
