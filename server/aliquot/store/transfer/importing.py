"""Importing: an archive into an empty database, whole and verified, or not at all."""

import base64
import gzip
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, LargeBinary, Table, delete, func, select

from aliquot.service.ports import StoreUnavailable
from aliquot.store.all_tables import ALL_TABLES
from aliquot.store.audit.noting import Hand, action, note_within
from aliquot.store.migration import HEAD
from aliquot.store.statements import insert_rows
from aliquot.store.tables import COUNTER
from aliquot.store.transfer.archive import ArchiveReader
from aliquot.store.verification import Verified, verified

_AT_ONCE: Final = 1000


def import_archive(connection: Connection, *, path: Path, by: Hand | None = None) -> Verified:
    """Fill the database; returns what was found to be whole in it afterwards.

    Args:
        by: who does so by a command; it is in the log, after what was imported.

    Raises:
        StoreUnavailable: the database is not empty, or the archive is of another version or was changed.
        ChainBroken: what was exported was broken already. In each case the database is left as it was.
    """
    with connection.begin(), gzip.open(path) as file:
        archive = ArchiveReader(file, path=path)  # type: ignore[arg-type]  # it is a binary file in all that matters
        _check(connection, archive)
        connection.execute(delete(COUNTER))
        for name, lines in groupby(archive.rows(), key=lambda line: line[0]):
            _fill(connection, ALL_TABLES.tables[name], (values for _, values in lines))
        found = verified(connection)
        if by is not None:
            facts = {"path": str(path.absolute()), "events": str(found.events)}
            note_within(connection, [action(connection, "database_imported", facts)], by=by)
        return found


def _check(connection: Connection, archive: ArchiveReader) -> None:
    if archive.revision != HEAD:
        raise StoreUnavailable(
            f"the archive has schema {archive.revision}, this version of Aliquot writes {HEAD}; "
            "export it again after `aliquot db upgrade`, with this version"
        )
    for table in ALL_TABLES.sorted_tables:
        if archive.columns.get(table.name) != list(table.c.keys()):
            raise StoreUnavailable(f"the archive has other columns of {table.name} than this version")
        count = connection.execute(select(func.count()).select_from(table)).scalar_one()
        if count and table is not COUNTER:
            raise StoreUnavailable(f"the database is not empty: there are {count} {table.name}; name a fresh one")


def _fill(connection: Connection, table: Table, rows: Iterator[list[Any]]) -> None:
    binary = [place for place, column in enumerate(table.c) if isinstance(column.type, LargeBinary)]
    batch = []
    for values in rows:
        for place in binary:
            values[place] = None if values[place] is None else base64.b64decode(values[place])
        batch.append(tuple(values))
        if len(batch) >= _AT_ONCE:
            insert_rows(connection, table, batch)
            batch = []
    if batch:
        insert_rows(connection, table, batch)
