"""Who did what in the past: events that were archived."""

from functools import reduce
from operator import and_
from pathlib import Path

from sqlalchemy import Connection, select

from aliquot.service.auditing.ports import AuditQuery
from aliquot.store.archive.folder import reading
from aliquot.store.archive.sealed_files import sealed_file
from aliquot.store.archive.searching import Group, column
from aliquot.store.audit.log import Account, Version, account, conditions, version_of
from aliquot.store.seals import EVENTS_KIND, seals
from aliquot.store.tables import COUNTER, EVENTS


class PastSearch:
    """Looks for more of an account, from where the table begins backwards: for events as long as fewer were found than
    were asked for, and for what was before any of them."""

    def __init__(self, connection: Connection, query: AuditQuery) -> None:
        """Begins with what the table says, and looks at nothing else."""
        self.account = account(connection, query)
        self._query = query
        self._first, first_us = _beginning(connection)
        is_later = query.first_us is not None and first_us is not None and query.first_us >= first_us
        self._wants_events = self._is_short and not is_later
        self._seals = [seal for seal in reversed(seals(connection, EVENTS_KIND)) if seal.first < self._first]

    def run(self, folder: Path) -> Account:
        """All of it. Blocks on the disk.

        Raises:
            StoreUnavailable: an archive is needed and cannot be read, or there is none; the message says from which
                event on all is known. What was found until then is in `account`.
        """
        for seal in self._seals:
            if self._is_done:
                break
            path = sealed_file(seal, folder, what="what was done before", known_from=f"event {seal.last + 1}")
            with reading(path) as parquet, parquet.ParquetFile(path) as file:
                for index in reversed(range(file.num_row_groups)):
                    self._look_through(Group(file, index))
        return self.account

    @property
    def _is_short(self) -> bool:
        return len(self.account.events) < self._query.limit

    @property
    def _is_done(self) -> bool:
        return not self._wants_events and not self.account.lacking()

    def _look_through(self, group: Group) -> None:
        if self._wants_events:
            wanted = [column("number") < self._first, *conditions(self._query, column)]
            found = group.rows(reduce(and_, wanted))
            self.account.events.extend(found[: self._query.limit - len(self.account.events)])
            is_older = self._query.first_us is not None and group.most("at_us") < self._query.first_us
            self._wants_events = self._is_short and not is_older
        if lacking := self.account.lacking():
            self._add_former(group, lacking)

    def _add_former(self, group: Group, lacking: set[Version]) -> None:
        ids, versions = zip(*((entity_id, version) for _, entity_id, version in lacking), strict=True)
        for row in group.rows(column("entity_id").isin(ids) & column("entity_version").isin(versions)):
            if version_of(row) in lacking:
                self.account.payloads[version_of(row)] = row["payload"]


def _beginning(connection: Connection) -> tuple[int, int | None]:
    """The first event in the table, and when that was; where there is none, the next one."""
    first = connection.execute(select(EVENTS.c.number, EVENTS.c.at_us).order_by(EVENTS.c.number).limit(1)).one_or_none()
    if first is not None:
        return first.number, first.at_us
    return connection.execute(select(COUNTER.c.number)).scalar_one() + 1, None
