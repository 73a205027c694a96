"""Archive verification: compares each file with its seal, and verifies the hash chains in the files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, select

from aliquot.service.ports import StoreUnavailable
from aliquot.service.retention import HistoryDamaged
from aliquot.store.archive import events, passes
from aliquot.store.archive.folder import Manifest, has_parquet, manifest_path, read_manifest, rows_of, sha256_of
from aliquot.store.hash_chain import CHAIN_START, EVENTS_KIND, SEALS
from aliquot.store.ledger.encoding import LEDGER


class ArchivesVerified(Struct, frozen=True, kw_only=True):
    """Result of a verification."""

    files: int
    rows: int
    links: int
    """Rows whose hash chain was verified; 0 without pyarrow."""
    gone: int
    """Rows removed without an archive."""
    faults: tuple[str, ...]


def all_seals(connection: Connection) -> list[Row[Any]]:
    """Every seal, by kind, oldest first."""
    return list(connection.execute(select(SEALS).order_by(SEALS.c.kind, SEALS.c.id)).all())


def verify_archives(seals: list[Row[Any]], *, folder: Path) -> ArchivesVerified:
    """Compare every file with its seal, and verify the hash chains across files. Blocks on the disk."""
    rows = links = gone = 0
    faults: list[str] = []
    walks_links = has_parquet()
    previous: dict[str, bytes | None] = {EVENTS_KIND: CHAIN_START, LEDGER: None}
    for seal in seals:
        if seal.file is None:
            gone += seal.rows
        else:
            fault = _fault(seal, folder / seal.file)
            if fault is None and walks_links and seal.kind in previous:
                fault = _chain_fault(seal, folder / seal.file, previous=previous[seal.kind])
                links += seal.rows
            faults += [] if fault is None else [f"{seal.id}: {fault}"]
            rows += seal.rows
        if seal.kind in previous:
            previous[seal.kind] = seal.head
    files = sum(seal.file is not None for seal in seals)
    return ArchivesVerified(files=files, rows=rows, links=links, gone=gone, faults=tuple(faults))


def _fault(seal: Row[Any], path: Path) -> str | None:
    try:
        if sha256_of(path) != seal.sha256:
            return f"{path} was changed after it was sealed"
        if read_manifest(manifest_path(path)) != Manifest.of_seal(seal):
            return f"{manifest_path(path)} differs from the seal in the database"
    except (OSError, StoreUnavailable) as error:
        return f"{error}; restore the file, or name its folder with --archive-folder"
    return None


def _chain_fault(seal: Row[Any], path: Path, *, previous: bytes | None) -> str | None:
    number, count = seal.first, 0
    try:
        for rows in _links(path):
            if seal.kind == EVENTS_KIND:
                previous = events.check_links(rows, number=number, previous=previous or CHAIN_START)
            else:
                previous = passes.check_links(rows, previous=previous)
            number, count = number + len(rows), count + len(rows)
    except (HistoryDamaged, StoreUnavailable) as damaged:
        return str(damaged)
    if previous != seal.head or count != seal.rows:
        return f"{path} does not end with the hash in its seal"
    return None


def _links(path: Path) -> Iterator[list[tuple[Any, ...]]]:
    for rows in rows_of(path):
        yield [tuple(row.values()) for row in rows]
