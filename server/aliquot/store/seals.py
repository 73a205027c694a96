"""Seals: up to where a chain was archived or removed, and what its last link was."""

from typing import Any, Final

from sqlalchemy import Connection, Table, select
from sqlalchemy import Row as Found

from aliquot.store.columns import METADATA, Row, bytes_column, number_column, text_column, text_key

EVENTS_KIND: Final = "events"
HOLDINGS_KIND: Final = "holdings"


class SealRow(Row, table=True):
    """What was taken out of the tables when it was old, see `aliquot.store.archive`. A seal is written before the rows
    are removed; those that are still there are removed later."""

    __tablename__ = "seals"

    id: str = text_key()
    """`<kind>-<number>`, and what the name of its file begins with."""
    kind: str = text_column()
    first: int = number_column()
    """The first and the last event or pass; of others, when they ended, microseconds UTC."""
    last: int = number_column()
    rows: int = number_column()
    at_us: int = number_column()
    """When it was sealed."""
    file: str | None = text_column()
    """Its name in the archive's folder; empty = the rows were not kept."""
    sha256: str | None = text_column()
    """Of the file."""
    head: bytes | None = bytes_column()
    """The hash of the last link; empty where there is no chain."""


SEALS: Final[Table] = METADATA.tables["seals"]


def seals(connection: Connection, kind: str) -> list[Found[Any]]:
    """All of a kind, in order."""
    rows = connection.execute(select(SEALS).where(SEALS.c.kind == kind).order_by(SEALS.c.id)).all()
    return list(rows)


def last_seal(connection: Connection, kind: str) -> Found[Any] | None:
    """The newest of a kind; None before the first."""
    asked = select(SEALS).where(SEALS.c.kind == kind).order_by(SEALS.c.id.desc()).limit(1)
    return connection.execute(asked).one_or_none()
