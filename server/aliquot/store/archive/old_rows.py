"""Rows that are old, with what belongs to them in other tables: read, and removed, by the ids of the old ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, Table, delete, select

from aliquot.store.archive.sealing import Stretch, check_epoch, next_id

Name = TypeVar("Name", bound=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRows:
    """What goes together, one file for each table."""

    tables: Mapping[str, Table]
    """By kind; the first has what is old, with an id and a version."""
    belongs: Callable[[Table, Sequence[str]], ColumnElement[bool]]
    """Whether a row of a table is one of these by their ids, or belongs to one."""

    @property
    def kind(self) -> str:
        """Of what is old."""
        return next(iter(self.tables))

    def stretches(self, connection: Connection, *, first: int, last: int) -> dict[str, tuple[Stretch, Sequence[Any]]]:
        """What is sealed together, with its columns, by kind; the rows are still to be counted."""
        return {
            kind: (Stretch(id=next_id(connection, kind), kind=kind, first=first, last=last, rows=0), tuple(table.c))
            for kind, table in self.tables.items()
        }

    def read(self, connection: Connection, kind: str, *, names: Sequence[str]) -> list[Row[Any]]:
        """What of a kind is one of these, or belongs to one."""
        table = self.tables[kind]
        asked = select(table).where(self.belongs(table, names)).order_by(*table.primary_key.columns)
        return list(connection.execute(asked).all())

    def remove(self, connection: Connection, versions: Mapping[Name, int], *, epoch: int | None) -> int:
        """Remove these with what belongs to them, unless they were changed meanwhile; returns how many went."""
        table = self.tables[self.kind]
        with connection.begin():
            asked = select(table.c.id, table.c.version).where(table.c.id.in_(versions)).with_for_update()
            names = [row.id for row in connection.execute(asked) if row.version == versions[row.id]]
            for one in reversed(tuple(self.tables.values())):
                connection.execute(delete(one).where(self.belongs(one, names)))
            # At the end, as commits do: the other way round they could wait for each other.
            check_epoch(connection, epoch)
            return len(names)
