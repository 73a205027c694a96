"""Find a text in a database: every cell of every table, packed ones included."""

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path


def tables_with(text: str, *, file: Path) -> set[str]:
    """Tables of a SQLite file that contain it anywhere."""
    wanted = text.encode()
    with closing(sqlite3.connect(file)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name for name in names if any(wanted in cell for cell in _cells(connection, name))}


def rows_of(table: str, *, file: Path) -> int:
    with closing(sqlite3.connect(file)) as connection:
        count: int = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        return count


def _cells(connection: sqlite3.Connection, table: str) -> list[bytes]:
    rows = connection.execute(f"SELECT * FROM {table}").fetchall()
    return [_plain(cell) for row in rows for cell in row]


def _plain(cell: object) -> bytes:
    if not isinstance(cell, bytes):
        return str(cell).encode()
    try:
        return zlib.decompress(cell)
    except zlib.error:
        return cell
