"""The relay's table. With PostgreSQL it is unlogged: after a crash of the database it is empty, and soon full again.

The embedded database has it too, so that schemas are alike; its server is alone, and puts nothing there. A row that was
exported with all the rest is soon too old to count, wherever it comes to.
"""

from typing import Final

from sqlalchemy import Table

from aliquot.store.columns import METADATA, Row, bytes_column, number_column, number_key


class ReadingsRow(Row, table=True):
    """One sheet, of one term."""

    __tablename__ = "readings"

    id: int = number_key()
    """Always 1."""
    epoch: int = number_column()
    number: int = number_column()
    told_us: int = number_column()
    """By the clock of the database, which alone is asked how old it is."""
    format: int = number_column()
    body: bytes = bytes_column()


READINGS: Final[Table] = METADATA.tables["readings"]
