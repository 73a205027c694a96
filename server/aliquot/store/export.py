"""Export and import: all tables as compressed JSON lines, as of one moment, and back into an empty database.

    {"aliquot-archive": 1, "revision": "0004", "tables": {"sessions": ["id", "version", ...], ...}}
    {"sessions": ["ses_...", 3, ...]}
    ...
    {"rows": 12345, "sha256": "..."}

The first line is a header, followed by one line per row. The last line holds the number of rows and the hash of all
lines before it. An import is verified and all or nothing.
"""

import base64
import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import IO, Any, Final

import msgspec
from sqlalchemy import Connection, LargeBinary, MetaData, Table, delete, func, select
from sqlalchemy.exc import (
    DataError,
    IntegrityError,
    InterfaceError,
    NoResultFound,
    ProgrammingError,
)

import aliquot.store.alert_tables
import aliquot.store.audit.holdings
import aliquot.store.backtests
import aliquot.store.forecasts
import aliquot.store.hash_chain
import aliquot.store.ledger.tables
import aliquot.store.replication.readings_relay
import aliquot.store.secrets.secrets
import aliquot.store.tables  # noqa: F401  # each of these registers its tables
from aliquot.service.ports import StoreUnavailable
from aliquot.store.audit.log import AuditAuthor, action, note_within
from aliquot.store.columns import METADATA
from aliquot.store.integrity import VerifiedCounts, verified
from aliquot.store.mapping import insert_rows
from aliquot.store.migration import HEAD
from aliquot.store.tables import COUNTER

ARCHIVE_FORMAT: Final = 1
_LEVEL: Final = 3


class ArchiveWriter:
    """Writes the lines of an archive."""

    def __init__(self, file: IO[bytes], *, revision: str, columns: dict[str, list[str]]) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.rows = 0
        self._put({"aliquot-archive": ARCHIVE_FORMAT, "revision": revision, "tables": columns})

    def row(self, table: str, values: list[Any]) -> None:
        """Write one row, values in table order. Bytes are written as base64."""
        self._put({table: values})
        self.rows += 1

    def seal(self) -> None:
        """Write the last line."""
        self._put({"rows": self.rows, "sha256": self._digest.hexdigest()})

    def _put(self, line: dict[str, Any]) -> None:
        data = msgspec.json.encode(line) + b"\n"
        self._digest.update(data)
        self._file.write(data)


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """A new file, readable by its owner only, that appears complete or not at all.

    Raises:
        FileExistsError: the file exists.
    """
    if path.exists():
        raise FileExistsError(f"{path} exists; name another file")
    partial = path.with_name(f"{path.name}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as raw:
            with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=_LEVEL, mtime=0) as file:
                yield file  # type: ignore[misc]  # it behaves as a binary file
            raw.flush()
            os.fsync(raw.fileno())
        partial.rename(path)
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()


class ArchiveReader:
    """Reads the header of an archive, then its rows on demand."""

    def __init__(self, file: IO[bytes], *, path: Path) -> None:
        """
        Raises:
            StoreUnavailable: the file is not an archive of this format.
        """
        self._file = file
        self._path = path
        self._digest = hashlib.sha256()
        head = self._next()
        revision, tables = head.get("revision"), head.get("tables")
        is_known = head.get("aliquot-archive") == ARCHIVE_FORMAT
        if not (is_known and isinstance(revision, str) and isinstance(tables, dict)):
            raise StoreUnavailable(f"{path} is not an archive that this version of Aliquot can read")
        self.revision = revision
        self.columns: dict[str, list[str]] = tables

    def rows(self) -> Iterator[tuple[str, list[Any]]]:
        """(table, values) of every row.

        Raises:
            StoreUnavailable: the file is truncated or was changed.
        """
        count = 0
        while True:
            before = self._digest.hexdigest()
            line = self._next()
            if "sha256" in line:
                if (line.get("rows"), line["sha256"]) != (count, before):
                    raise StoreUnavailable(f"{self._path} was changed after it was written")
                return
            ((table, values),) = line.items()
            yield table, values
            count += 1

    def _next(self) -> dict[str, Any]:
        try:
            data = self._file.readline()
            line: dict[str, Any] = msgspec.json.decode(data, type=dict)
        except (OSError, EOFError, zlib.error, UnicodeDecodeError, msgspec.DecodeError) as error:
            raise StoreUnavailable(f"{self._path} is truncated or not an archive of Aliquot: {error}") from error
        self._digest.update(data)
        return line


ALL_TABLES: Final[MetaData] = METADATA

_FETCHED = 1000


def export(connection: Connection, *, path: Path) -> int:
    """Write an archive; returns the number of rows.

    Raises:
        FileExistsError: the file exists.
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


_INSERT_ROWS: Final = 1000
_INVALID: Final = (
    *(ArithmeticError, LookupError, TypeError, ValueError, zlib.error),
    *(DataError, IntegrityError, InterfaceError, NoResultFound, ProgrammingError),
)
"""What rows raise that no version of Aliquot wrote."""


def import_archive(connection: Connection, *, path: Path, by: AuditAuthor | None = None) -> VerifiedCounts:
    """Fill an empty database and verify it. After an error the database is unchanged.

    Args:
        by: the account that runs the command, recorded in the log after the imported events; None = not recorded.

    Raises:
        StoreUnavailable: the database is not empty, or the archive was changed or has another version.
        ChainBroken: the exported data was inconsistent already.
    """
    with connection.begin(), gzip.open(path) as file:
        archive = ArchiveReader(file, path=path)  # type: ignore[arg-type]  # it behaves as a binary file
        _check(connection, archive)
        connection.execute(delete(COUNTER))
        try:
            for name, lines in groupby(archive.rows(), key=lambda line: line[0]):
                _fill(connection, ALL_TABLES.tables[name], (values for _, values in lines))
            found = verified(connection)
        except _INVALID as error:
            kind = type(error).__name__
            raise StoreUnavailable(f"{path} has rows that cannot be read ({kind}); nothing was imported") from error
        if by is not None:
            facts = {"path": str(path.absolute()), "events": str(found.events)}
            note_within(connection, [action(connection, "database_imported", facts)], by=by)
        return found


def _check(connection: Connection, archive: ArchiveReader) -> None:
    if archive.revision != HEAD:
        raise StoreUnavailable(
            f"the archive has schema {archive.revision}, this version of Aliquot reads {HEAD}; "
            "run `aliquot db upgrade` on the exported database and export it again with this version"
        )
    for table in ALL_TABLES.sorted_tables:
        if archive.columns.get(table.name) != list(table.c.keys()):
            raise StoreUnavailable(f"the archive has other columns in {table.name} than this version of Aliquot")
        count = connection.execute(select(func.count()).select_from(table)).scalar_one()
        if count and table is not COUNTER:
            raise StoreUnavailable(f"the database is not empty: {table.name} has {count} rows; name an empty one")


def _fill(connection: Connection, table: Table, rows: Iterator[list[Any]]) -> None:
    binary = [place for place, column in enumerate(table.c) if isinstance(column.type, LargeBinary)]
    batch = []
    for values in rows:
        for place in binary:
            values[place] = None if values[place] is None else base64.b64decode(values[place])
        batch.append(tuple(values))
        if len(batch) >= _INSERT_ROWS:
            insert_rows(connection, table, batch)
            batch = []
    if batch:
        insert_rows(connection, table, batch)
