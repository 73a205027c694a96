"""Who held a device in the past: holdings that were archived with their sessions and leases."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Row

from aliquot.service.auditing.ports import Holding
from aliquot.store.archive.folder import found_in
from aliquot.store.archive.sealed_files import sealed_file
from aliquot.store.seals import HOLDINGS_KIND, seals

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def seals_after(connection: Connection, *, first_us: int) -> list[Row[Any]]:
    """Seals of holdings of which some may have been held at that time or later."""
    return [seal for seal in seals(connection, HOLDINGS_KIND) if seal.last > first_us]


def archived(
    told: Sequence[Row[Any]], *, folder: Path, device_id: str, first_us: int, last_us: int
) -> tuple[Holding, ...]:
    """Who held a device at any time between two moments, by what these seals tell of. Blocks on the disk.

    Raises:
        StoreUnavailable: a file is away or cannot be read, or it was removed without one; the message says from when
            on it is known all the same.
    """
    return tuple(held for seal in told for held in _held(seal, folder, device_id, first_us, last_us))


def merged(kept: Iterable[Holding], past: Iterable[Holding]) -> tuple[Holding, ...]:
    """Each once, in the order of the grants: what was sealed may not be removed yet."""
    found = {(held.lease_id, held.slot): held for held in (*past, *kept)}
    return tuple(sorted(found.values(), key=lambda held: (held.granted_event, held.slot)))


def _held(seal: Row[Any], folder: Path, device_id: str, first_us: int, last_us: int) -> Iterator[Holding]:
    path = sealed_file(seal, folder, what="who held what before", known_from=_text(seal.last))
    for row in found_in(path, equal={"device_id": device_id}):
        if row["from_us"] <= last_us and (row["ended_us"] is None or row["ended_us"] > first_us):
            yield Holding(**row)


def _text(at_us: int) -> str:
    return (_EPOCH + timedelta(microseconds=at_us)).isoformat(timespec="seconds")
