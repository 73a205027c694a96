"""Old rows: reads and removes rows by id, together with the rows of other tables that belong to them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Row, Table, delete, select

from aliquot.store.archive.sealing import EventRange, check_epoch, next_id

Name = TypeVar("Name", bound=str)


class OldRows(Struct, frozen=True, kw_only=True):
    """Tables archived together, one file per table."""

    tables: Mapping[str, Table]
    """Tables by kind. The first one has the old rows, with an id and a version."""
    belongs: Callable[[Table, Sequence[str]], ColumnElement[bool]]
    """Condition: a row of a table has one of these ids or belongs to a row that has."""

    @property
    def kind(self) -> str:
        """Kind of the old rows."""
        return next(iter(self.tables))

    def segments(self, connection: Connection, *, first: int, last: int) -> dict[str, tuple[EventRange, Sequence[Any]]]:
        """Ranges to seal and their columns, by kind. Rows are not counted yet."""
        return {
            kind: (EventRange(id=next_id(connection, kind), kind=kind, first=first, last=last, rows=0), tuple(table.c))
            for kind, table in self.tables.items()
        }

    def read(self, connection: Connection, kind: str, *, names: Sequence[str]) -> list[Row[Any]]:
        """The rows of a kind that have or belong to these ids."""
        table = self.tables[kind]
        stmt = select(table).where(self.belongs(table, names)).order_by(*table.primary_key.columns)
        return list(connection.execute(stmt).all())

    def remove(self, connection: Connection, versions: Mapping[Name, int], *, epoch: int | None) -> int:
        """Remove rows and what belongs to them, except rows changed since; returns the number of rows removed."""
        table = self.tables[self.kind]
        with connection.begin():
            stmt = select(table.c.id, table.c.version).where(table.c.id.in_(versions)).with_for_update()
            names = [row.id for row in connection.execute(stmt) if row.version == versions[row.id]]
            for one in reversed(tuple(self.tables.values())):
                connection.execute(delete(one).where(self.belongs(one, names)))
            # Last, as in commits: the opposite order could deadlock with them.
            check_epoch(connection, epoch)
            return len(names)
