"""Exporting: every table of a database into an archive, as of one moment."""

from pathlib import Path

from sqlalchemy import Connection, select

from aliquot.store.all_tables import ALL_TABLES
from aliquot.store.migration import HEAD
from aliquot.store.transfer.archive import ArchiveWriter, writing

_FETCHED = 1000


def export(connection: Connection, *, path: Path) -> int:
    """Write the archive, and count its rows.

    Raises:
        FileExistsError: there is such a file.
    """
    tables = ALL_TABLES.sorted_tables
    with writing(path) as file:
        archive = ArchiveWriter(file, revision=HEAD, columns={table.name: list(table.c.keys()) for table in tables})
        for table in tables:
            ordered = select(table).order_by(*table.primary_key.columns)
            rows = connection.execute(ordered.execution_options(yield_per=_FETCHED))
            for row in rows:
                archive.row(table.name, list(row))
        archive.seal()
        return archive.rows
