"""Archive search: finds changes and holdings in archived files, one row group at a time."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property, reduce
from operator import and_
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from aliquot.service.audit.audit import AuditQuery, Holding
from aliquot.store.archive.folder import found_in, reading
from aliquot.store.archive.sealing import sealed_file
from aliquot.store.audit.log import Account, Version, account, conditions, version_of
from aliquot.store.hash_chain import EVENTS_KIND, HOLDINGS_KIND, seals
from aliquot.store.tables import ACTIONS, COUNTER, EVENTS
from aliquot_schema.orchestration import CLOCK_ACTION

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def seals_after(connection: Connection, *, first_us: int) -> list[Row[Any]]:
    """Seals with holdings that may have lasted until that time or later."""
    return [seal for seal in seals(connection, HOLDINGS_KIND) if seal.last > first_us]


def archived(
    sealed: Sequence[Row[Any]], *, folder: Path, device_id: str, first_us: int, last_us: int
) -> tuple[Holding, ...]:
    """Archived holdings of a device at any time between two moments, both included. Blocks on the disk.

    Raises:
        StoreUnavailable: a file is missing or unreadable, or the rows were removed without an archive. The message
            says from when on the database has holdings.
    """
    return tuple(held for seal in sealed for held in _held(seal, folder, device_id, first_us, last_us))


def merged(kept: Iterable[Holding], past: Iterable[Holding]) -> tuple[Holding, ...]:
    """Combine both without duplicates, in the order of the grants: sealed rows may still be in the table."""
    found = {(held.lease_id, held.slot): held for held in (*past, *kept)}
    return tuple(sorted(found.values(), key=lambda held: (held.granted_event, held.slot)))


def _held(seal: Row[Any], folder: Path, device_id: str, first_us: int, last_us: int) -> Iterator[Holding]:
    path = sealed_file(seal, folder, what="holdings", known_from=_iso(seal.last))
    for row in found_in(path, equal={"device_id": device_id}):
        if row["from_us"] <= last_us and (row["ended_us"] is None or row["ended_us"] > first_us):
            yield Holding(**row)


def _iso(at_us: int) -> str:
    return (_EPOCH + timedelta(microseconds=at_us)).isoformat(timespec="seconds")


_LARGE: Final = ("payload", "prev_hash", "hash")
"""Columns read only for row groups with matches."""


class Group:
    """A row group of a Parquet file, read on demand."""

    def __init__(self, file: Any, index: int) -> None:
        self._file = file
        self._index = index

    def rows(self, condition: Any) -> list[dict[str, Any]]:
        """Matching rows, the last first."""
        if not self._small.filter(condition).num_rows:
            return []
        found: list[dict[str, Any]] = self._whole.filter(condition).to_pylist()
        return found[::-1]

    def maximum(self, name: str) -> int:
        """Maximum of a number column."""
        numbers: list[int] = self._small[name].to_pylist()
        return max(numbers)

    @cached_property
    def _small(self) -> Any:
        names = [name for name in self._file.schema_arrow.names if name not in _LARGE]
        return self._file.read_row_group(self._index, columns=names, use_threads=False)

    @cached_property
    def _whole(self) -> Any:
        return self._file.read_row_group(self._index, use_threads=False)


def column(name: str) -> Any:
    """A column expression for conditions."""
    from pyarrow import compute  # type: ignore[import-untyped] # it ships no types

    return compute.field(name)


class PastSearch:
    """Extends the result of an audit query by archived events, going backwards from the first event of the table.

    It searches until the limit of events is reached and the former state of each is found.
    """

    def __init__(self, connection: Connection, query: AuditQuery) -> None:
        """Runs the query on the table only."""
        self.account = account(connection, query)
        self._query = query
        self._first, first_us = _table_start(connection)
        self._ends_us = None if _is_clock_corrected(connection) else query.first_us
        """Older events need not be read from here on. After a correction of the clock, times are not in order."""
        is_later = self._ends_us is not None and first_us is not None and self._ends_us >= first_us
        self._wants_events = self._is_short and not is_later
        self._seals = [seal for seal in reversed(seals(connection, EVENTS_KIND)) if seal.first < self._first]

    def run(self, folder: Path) -> Account:
        """Search the archives. Blocks on the disk.

        Raises:
            StoreUnavailable: a needed file is missing or unreadable, or was never written. The message says from
                which event on the table is complete; `account` has what was found so far.
        """
        for seal in self._seals:
            if self._is_done:
                break
            path = sealed_file(seal, folder, what="events", known_from=f"event {seal.last + 1}")
            with reading(path) as parquet, parquet.ParquetFile(path) as file:
                for index in reversed(range(file.num_row_groups)):
                    self._search_group(Group(file, index))
        return self.account

    @property
    def _is_short(self) -> bool:
        return len(self.account.events) < self._query.limit

    @property
    def _is_done(self) -> bool:
        return not self._wants_events and not self.account.lacking()

    def _search_group(self, group: Group) -> None:
        if self._wants_events:
            wanted = [column("number") < self._first, *conditions(self._query, column)]
            found = group.rows(reduce(and_, wanted))
            self.account.events.extend(found[: self._query.limit - len(self.account.events)])
            is_older = self._ends_us is not None and group.maximum("at_us") < self._ends_us
            self._wants_events = self._is_short and not is_older
        if lacking := self.account.lacking():
            self._add_former(group, lacking)

    def _add_former(self, group: Group, lacking: set[Version]) -> None:
        ids, versions = zip(*((entity_id, version) for _, entity_id, version in lacking), strict=True)
        for row in group.rows(column("entity_id").isin(ids) & column("entity_version").isin(versions)):
            if version_of(row) in lacking:
                self.account.payloads[version_of(row)] = row["payload"]


def _is_clock_corrected(connection: Connection) -> bool:
    """Whether the clock was ever corrected, so that an event can be dated before earlier ones."""
    found = select(ACTIONS.c.id).where(ACTIONS.c.id == CLOCK_ACTION)
    return connection.execute(found).one_or_none() is not None


def _table_start(connection: Connection) -> tuple[int, int | None]:
    """Number and time of the first event in the table; if it is empty, the next number and None."""
    first = connection.execute(select(EVENTS.c.number, EVENTS.c.at_us).order_by(EVENTS.c.number).limit(1)).one_or_none()
    if first is not None:
        return first.number, first.at_us
    return connection.execute(select(COUNTER.c.number)).scalar_one() + 1, None
