"""Verifying archives: each file is the one that was sealed, and its rows are links of the chain."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, select

from aliquot.service.ports import StoreUnavailable
from aliquot.service.retention.ports import HistoryDamaged
from aliquot.store.archive import events, passes
from aliquot.store.archive.folder import has_parquet, rows_of
from aliquot.store.archive.manifest import Manifest, manifest_path, read_manifest, sha256_of
from aliquot.store.chain import CHAIN_START
from aliquot.store.ledger.chain import LEDGER
from aliquot.store.seals import EVENTS_KIND, SEALS


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivesVerified:
    """What was found."""

    files: int
    rows: int
    links: int
    """Of those rows, events and passes whose chain was walked; fewer when pyarrow is missing."""
    gone: int
    """Rows that were removed without an archive."""
    faults: tuple[str, ...]


def all_seals(connection: Connection) -> list[Row[Any]]:
    """Every seal, of each kind in order."""
    return list(connection.execute(select(SEALS).order_by(SEALS.c.kind, SEALS.c.id)).all())


def verify_archives(seals: list[Row[Any]], *, folder: Path) -> ArchivesVerified:
    """Hold every sealed file against its seal, and the chains in them against each other. Blocks on the disk."""
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
                fault = _broken_link(seal, folder / seal.file, previous=previous[seal.kind])
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
            return f"{manifest_path(path)} does not say what was sealed"
    except (OSError, StoreUnavailable) as error:
        return f"{error}; bring it back, or name its folder with --archive-folder"
    return None


def _broken_link(seal: Row[Any], path: Path, *, previous: bytes | None) -> str | None:
    number, count = seal.first, 0
    try:
        for rows in _links(path):
            if seal.kind == EVENTS_KIND:
                previous = events.walked(rows, number=number, previous=previous or CHAIN_START)
            else:
                previous = passes.walked(rows, previous=previous)
            number, count = number + len(rows), count + len(rows)
    except (HistoryDamaged, StoreUnavailable) as damaged:
        return str(damaged)
    if previous != seal.head or count != seal.rows:
        return f"{path} does not end with the link that was sealed"
    return None


def _links(path: Path) -> Iterator[list[tuple[Any, ...]]]:
    for rows in rows_of(path):
        yield [tuple(row.values()) for row in rows]
