"""Cluster mark: a file in the data folder that names the folder's database and its last event known to be durable.

Without it, a lost or emptied database looks like a new cluster, and an older copy like the current one. The mark stores
the event's number and hash; the hash covers all events before it.
"""

import os
from pathlib import Path
from typing import Final

import msgspec
from sqlalchemy import Connection, select

from aliquot.service.ports import StoreUnavailable
from aliquot.store.hash_chain import EVENTS_KIND, SEALS, too_short
from aliquot.store.migration import stored_revision
from aliquot.store.tables import COUNTER, EVENTS

MARK_FILE: Final = Path("server") / "cluster-mark.json"
FORMAT: Final = 1
_SIZE_MAX: Final = 4096
_NEXT_STEPS: Final = "Put the cluster's own database back, restore a backup with `aliquot db restore`, or "


class ClusterMark(msgspec.Struct, frozen=True, kw_only=True):
    """An event known to be durable."""

    format: int = FORMAT
    cluster: str | None
    """The cluster's id: the hash of its first event. None if retention removed it before the first mark."""
    event: int
    hash: str
    """Empty if it is not known; then the event is recognised by `entity_id` and `at_us`."""
    entity_id: str | None = None
    at_us: int
    """When the event was written, microseconds UTC."""


class DatabaseReplaced(StoreUnavailable):
    """The database is not the one that this server has worked with; the message says what differs."""


def latest_mark(connection: Connection, known: ClusterMark | None = None, seen: int = 0) -> ClusterMark | None:
    """The mark of the last event; None before the first one. The transaction must see one snapshot.

    Args:
        known: an earlier mark.
        seen: the number of the last event that the server has read.
    Raises:
        DatabaseReplaced: the database does not continue from there.
    """
    end = connection.execute(select(COUNTER)).one()
    if known is not None and (difference := _difference(connection, known, last=end.number)) is not None:
        raise DatabaseReplaced(difference)
    if end.number < seen:
        raise DatabaseReplaced(too_short(end.number, seen))
    if not end.number:
        return None
    return ClusterMark(cluster=_hash_of(connection, 1), event=end.number, hash=bytes(end.hash).hex(), at_us=end.at_us)


class MarkFile:
    """The mark of one data folder. Its methods block on the disk."""

    def __init__(self, path: Path, *, is_new: bool = False) -> None:
        """With `is_new`, the database must be empty, and the mark is ignored and removed."""
        self.path = path
        self._is_new = is_new

    def read(self) -> ClusterMark | None:
        """Read the mark; None before the first one.

        Raises:
            StoreUnavailable: the file cannot be read.
        """
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW)
            with os.fdopen(file, "rb") as stream:
                mark = msgspec.json.decode(stream.read(_SIZE_MAX), type=ClusterMark)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise StoreUnavailable(
                f"the cluster mark {self.path} cannot be read ({error}); "
                "if the database is the right one, delete this file and start again"
            ) from None
        if mark.format != FORMAT:
            raise StoreUnavailable(
                f"the cluster mark {self.path} has format {mark.format}; this version of Aliquot reads {FORMAT}"
            )
        return mark

    def advance(self, mark: ClusterMark) -> None:
        """Write a later mark of the same cluster. The cluster id is kept after retention removed its first event.

        Raises:
            OSError: the file cannot be written; the old mark remains.
        """
        if mark.cluster is None and (known := self.read()) is not None:
            mark = msgspec.structs.replace(mark, cluster=known.cluster)
        self.write(mark)

    def write(self, mark: ClusterMark) -> None:
        """Replace the mark durably.

        Raises:
            OSError: the file cannot be written; the old mark remains.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self.path.with_name(f".{self.path.name}.{os.urandom(8).hex()}")
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(file, "wb") as stream:
                stream.write(msgspec.json.encode(mark) + b"\n")
                stream.flush()
                os.fsync(file)
            draft.replace(self.path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        flush_folder(self.path.parent)

    def remove(self) -> None:
        """Remove the mark: any database is accepted from now on."""
        if os.path.lexists(self.path):
            self.path.unlink()
            flush_folder(self.path.parent)

    def check(self, connection: Connection) -> None:
        """Check that the database matches the mark, before anything in it is changed.

        Raises:
            StoreUnavailable: it belongs to another cluster, ends before the mark, or has diverged from it.
        """
        with connection.begin():
            end = None if stored_revision(connection) is None else connection.execute(select(COUNTER)).one()
            if end is None or not end.number:
                self.check_empty()
                return
            if self._is_new:
                raise StoreUnavailable(
                    f"--new begins a new cluster, and the database holds one with {end.number} events; "
                    "leave --new out, or name an empty database"
                )
            if (mark := self.read()) is not None:
                self._compare(connection, mark, last=end.number)

    def check_empty(self) -> None:
        """Check that an empty or missing database is acceptable.

        Raises:
            StoreUnavailable: the mark says that the database had events.
        """
        if self._is_new:
            self.remove()
        elif (mark := self.read()) is not None:
            raise StoreUnavailable(
                "the database is empty or missing, and the cluster of this data folder had reached "
                f"event {mark.event}. {_NEXT_STEPS}start once with --new to begin a new cluster"
            )

    def _compare(self, connection: Connection, mark: ClusterMark, *, last: int) -> None:
        if (difference := _difference(connection, mark, last=last)) is not None:
            raise StoreUnavailable(
                f"{difference}. {_NEXT_STEPS}move this database away and start once with --new to begin a new cluster"
            )


def _difference(connection: Connection, mark: ClusterMark, *, last: int) -> str | None:
    """How a database with `last` events differs from a mark; None if it continues from there."""
    first = _hash_of(connection, 1)
    is_other = None not in (first, mark.cluster) and first != mark.cluster
    found = _hash_of(connection, mark.event)
    if is_other or (found is None and last >= mark.event and _was_sealed_before(connection, mark)):
        return "the database belongs to another cluster than this data folder"
    if last < mark.event:
        return too_short(last, mark.event)
    if found is not None and not _is_same(connection, mark, found=found):
        return (
            f"event {mark.event} in the database differs from the one of this data folder: "
            "the database is an older copy that another server has continued"
        )
    return None


def _is_same(connection: Connection, mark: ClusterMark, *, found: str) -> bool:
    """Whether the event of the mark's number, with the hash `found`, is the mark's."""
    if mark.hash:
        return found == mark.hash
    row = connection.execute(select(EVENTS).where(EVENTS.c.number == mark.event)).one_or_none()
    return row is None or (row.entity_id, row.at_us) == (mark.entity_id, mark.at_us)


def _hash_of(connection: Connection, number: int) -> str | None:
    """The hash of an event, as hex; None if it was removed or never existed."""
    kept = connection.execute(select(EVENTS.c.hash).where(EVENTS.c.number == number)).scalar_one_or_none()
    if kept is None:
        # After retention removed every event, the counter still has the hash of the last one.
        kept = connection.execute(select(COUNTER.c.hash).where(COUNTER.c.number == number)).scalar_one_or_none()
    if kept is None:
        sealed = select(SEALS.c.head).where(SEALS.c.kind == EVENTS_KIND, SEALS.c.last == number)
        kept = connection.execute(sealed).scalar_one_or_none()
    return None if kept is None else bytes(kept).hex()


def _was_sealed_before(connection: Connection, mark: ClusterMark) -> bool:
    """Whether the event of this number had been sealed before the mark was written; if so, it is a different event."""
    covers = select(SEALS.c.at_us).where(
        SEALS.c.kind == EVENTS_KIND, SEALS.c.first <= mark.event, SEALS.c.last >= mark.event
    )
    sealed_us = connection.execute(covers).scalars().first()
    return sealed_us is not None and sealed_us <= mark.at_us


def flush_folder(folder: Path) -> None:
    """Make the entries of a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
