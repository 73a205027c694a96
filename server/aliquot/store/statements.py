"""Write statements: compiled once per database, and executed with plain tuples.

Binding parameters through SQLAlchemy costs about 7 us per row and 70 us per statement; only its SQL text is used here.
On PostgreSQL each commit notifies all servers on `CHANNEL` that the log has grown.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    ClauseElement,
    Connection,
    CursorResult,
    Dialect,
    Table,
    bindparam,
    insert,
    literal_column,
    update,
)
from sqlalchemy.sql.compiler import SQLCompiler

from aliquot.store.tables import COUNTER, EVENTS

CHANNEL: Final = "aliquot_events"
SERVER_SETTING: Final = "aliquot.server"
"""Session setting with the server's id. A notification carries the id of the server that committed."""
NOTIFY: Final = f"pg_notify('{CHANNEL}', coalesce(current_setting('{SERVER_SETTING}', true), ''))"
"""Part of the last statement of a commit, so that it costs no round trip."""

Rows = Sequence[tuple[Any, ...]]


def insert_rows(connection: Connection, table: Table, rows: Rows) -> None:
    """Insert rows, each in table order."""
    connection.exec_driver_sql(_insert_text(table, connection.dialect), list(rows))


def replace_rows(connection: Connection, table: Table, rows: Rows) -> CursorResult[Any]:
    """Replace rows by id and version.

    Args:
        rows: the columns without `id` in table order, then the id and the version to replace.
    """
    return connection.exec_driver_sql(_replace_text(table, connection.dialect), list(rows))


def reserve_numbers(connection: Connection, count: int) -> Any:
    """Reserve `count` event numbers and return the counter's row, locked until the transaction ends."""
    return connection.exec_driver_sql(_reserve_text(connection.dialect), (count,)).one()


def write_end(connection: Connection, *, end_hash: bytes, at_us: int, pass_number: int) -> None:
    """Store hash, time and pass of the last event in the counter."""
    connection.exec_driver_sql(_end_text(connection.dialect), (end_hash, at_us, pass_number))


def insert_events(connection: Connection, rows: Rows) -> None:
    """Append events, each in table order."""
    insert_rows(connection, EVENTS, rows)


@lru_cache(maxsize=64)
def _insert_text(table: Table, dialect: Dialect) -> str:
    return _compiled(insert(table), dialect, names=table.c.keys())


@lru_cache(maxsize=64)
def _replace_text(table: Table, dialect: Dialect) -> str:
    columns = [column.name for column in table.c if column.name != "id"]
    statement = update(table).values({name: bindparam(name) for name in columns})
    statement = statement.where(table.c.id == bindparam("row_id"), table.c.version == bindparam("row_version"))
    return _compiled(statement, dialect, names=[*columns, "row_id", "row_version"])


@lru_cache(maxsize=8)
def _reserve_text(dialect: Dialect) -> str:
    moved = update(COUNTER).values(number=COUNTER.c.number + bindparam("count")).returning(*COUNTER.c)
    return _compiled(moved, dialect, names=["count"])


@lru_cache(maxsize=8)
def _end_text(dialect: Dialect) -> str:
    columns = ["hash", "at_us", "pass_number"]
    moved = update(COUNTER).values({name: bindparam(name) for name in columns})
    notifying = moved.returning(literal_column(NOTIFY)) if dialect.name == "postgresql" else moved
    return _compiled(notifying, dialect, names=columns)


def _compiled(statement: ClauseElement, dialect: Dialect, *, names: Sequence[str]) -> str:
    compiled = statement.compile(dialect=dialect)
    if not isinstance(compiled, SQLCompiler) or list(compiled.positiontup or ()) != list(names):
        raise TypeError(f"the parameters of {compiled} are not in the order {names}")
    return str(compiled)
