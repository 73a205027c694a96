"""Seals: up to where a chain was archived or removed, and what its last link was."""

from typing import Any, Final

from sqlalchemy import Connection, LargeBinary, Table, select
from sqlalchemy import Row as Found
from sqlmodel import Field

from aliquot.store.tables import INT, METADATA, TEXT, Row

EVENTS_KIND: Final = "events"
HOLDINGS_KIND: Final = "holdings"


class SealRow(Row, table=True):
    """What was taken out of the tables when it was old, see `aliquot.store.archive`. A seal is written before the rows
    are removed; those that are still there are removed later."""

    __tablename__ = "seals"

    id: str = Field(sa_type=TEXT, primary_key=True)
    """`<kind>-<number>`, and what the name of its file begins with."""
    kind: str = Field(sa_type=TEXT)
    first: int = Field(sa_type=INT)
    """The first and the last event or pass; of others, when they ended, microseconds UTC."""
    last: int = Field(sa_type=INT)
    rows: int = Field(sa_type=INT)
    at_us: int = Field(sa_type=INT)
    """When it was sealed."""
    file: str | None = Field(sa_type=TEXT)
    """Its name in the archive's folder; empty = the rows were not kept."""
    sha256: str | None = Field(sa_type=TEXT)
    """Of the file."""
    head: bytes | None = Field(sa_type=LargeBinary)
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
