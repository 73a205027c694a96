"""Sealing: writes the file, then its manifest, then the seal in the database. Only sealed rows may be removed.

An `ArchiveBatch` holds the files sealed together and writes them in threads.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Column, Connection, Row, func, insert, select

from aliquot.service.ports import NotLeader, StoreUnavailable
from aliquot.store.archive.folder import (
    INSTALL,
    ArchiveFile,
    ArchiveFolder,
    Manifest,
    Rows,
    has_parquet,
    manifest_path,
    sha256_of,
)
from aliquot.store.hash_chain import SEALS
from aliquot.store.tables import COUNTER


class EventRange(Struct, frozen=True, kw_only=True):
    """A range of rows of one kind, sealed as one file."""

    id: str
    kind: str
    first: int
    last: int
    rows: int
    head: bytes | None = None
    """Hash of the last link; None for kinds without a chain."""


def finish_file(file: ArchiveFile, segment: EventRange, *, folder: ArchiveFolder, at_us: int) -> Manifest:
    """Complete a file and write its manifest; after a failure there is neither."""
    path = file.finish()
    try:
        return _described(path, segment, folder=folder, at_us=at_us)
    except BaseException:
        for left in (manifest_path(path), path):
            left.unlink(missing_ok=True)
        raise


def _described(path: Path, segment: EventRange, *, folder: ArchiveFolder, at_us: int) -> Manifest:
    manifest = Manifest(
        id=segment.id,
        kind=segment.kind,
        file=path.name,
        first=segment.first,
        last=segment.last,
        rows=segment.rows,
        at_us=at_us,
        sha256=sha256_of(path),
        head=None if segment.head is None else segment.head.hex(),
    )
    folder.describe(manifest)
    return manifest


def put_seals(
    connection: Connection, segments: Mapping[EventRange, Manifest | None], *, epoch: int | None, at_us: int
) -> None:
    """Write seals in one transaction. A range without a manifest was discarded, not archived.

    Raises:
        NotLeader: the epoch is over.
    """
    rows = [
        {
            "id": segment.id,
            "kind": segment.kind,
            "first": segment.first,
            "last": segment.last,
            "rows": segment.rows,
            "at_us": at_us,
            "file": None if manifest is None else manifest.file,
            "sha256": None if manifest is None else manifest.sha256,
            "head": segment.head,
        }
        for segment, manifest in segments.items()
    ]
    with connection.begin():
        check_epoch(connection, epoch)
        connection.execute(insert(SEALS), rows)


def check_epoch(connection: Connection, epoch: int | None) -> None:
    """Check that an epoch is the present one, and keep it so until the transaction ends; None = any epoch.

    Raises:
        NotLeader: another server began a later epoch.
    """
    present = connection.execute(select(COUNTER.c.epoch).with_for_update(read=True)).scalar_one()
    if epoch is not None and present != epoch:
        raise NotLeader(f"archiving began in epoch {epoch}, and another server leads in epoch {present}")


def next_id(connection: Connection, kind: str) -> str:
    """The name of the next archive of a kind; names sort by age."""
    count = connection.execute(select(func.count()).select_from(SEALS).where(SEALS.c.kind == kind)).scalar_one()
    return f"{kind}-{count + 1:06d}"


Columns = Sequence[Column[Any]]


class ArchiveBatch:
    """Files sealed together; unfinished ones are removed. Without a folder, rows are only counted."""

    def __init__(self, folder: ArchiveFolder | None, segments: Mapping[str, tuple[EventRange, Columns]]) -> None:
        """
        Args:
            segments: ranges and their columns, by kind.
        """
        self._folder = folder
        self._segments = segments
        self._files: dict[str, ArchiveFile] = {}
        self._rows: Counter[str] = Counter()
        self._latest = {kind: segment.last for kind, (segment, _) in segments.items()}

    async def __aenter__(self) -> Self:
        if self._folder is not None:
            try:
                for kind, (segment, columns) in self._segments.items():
                    self._files[kind] = await asyncio.to_thread(self._folder.begin, segment.id, columns)
            except BaseException:
                await self.__aexit__(None, None, None)
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            await asyncio.to_thread(file.discard)

    def rows(self, kind: str) -> int:
        """Number of rows put."""
        return self._rows[kind]

    async def put(self, kind: str, rows: Rows, *, last: int = 0) -> None:
        """Append rows. `last` extends the range if it is later than the planned end."""
        self._rows[kind] += len(rows)
        self._latest[kind] = max(self._latest[kind], last)
        if kind in self._files:
            await asyncio.to_thread(self._files[kind].put, rows)

    async def finish(self, *, at_us: int) -> dict[EventRange, Manifest | None]:
        """Complete all files and their manifests, or none. Kinds without rows get neither file nor seal."""
        found: dict[EventRange, Manifest | None] = {}
        try:
            await self._finish(found, at_us=at_us)
        except BaseException:
            await self.remove_files(manifest for manifest in found.values() if manifest is not None)
            raise
        return found

    async def _finish(self, found: dict[EventRange, Manifest | None], *, at_us: int) -> None:
        for kind, (planned, _) in self._segments.items():
            segment = replace(planned, rows=self._rows[kind], last=self._latest[kind])
            if segment.rows and self._folder is not None:
                file = self._files[kind]
                found[segment] = await asyncio.to_thread(finish_file, file, segment, folder=self._folder, at_us=at_us)
            elif segment.rows:
                found[segment] = None

    async def remove_files(self, manifests: Iterable[Manifest]) -> None:
        """Remove finished files for which no seal was written."""
        if self._folder is not None:
            for manifest in manifests:
                await asyncio.to_thread(self._folder.remove, manifest)


def sealed_file(seal: Row[Any], folder: Path, *, what: str, known_from: str) -> Path:
    """The file of a seal.

    Args:
        what: content of the file, as a plural noun for messages.
        known_from: from where on the database has it, for messages.
    Raises:
        StoreUnavailable: the file is missing, was never written, or pyarrow is not installed.
    """
    known = f"the database has them from {known_from} on"
    if seal.file is None:
        raise StoreUnavailable(f"older {what} were removed without an archive; {known}")
    if not has_parquet():
        raise StoreUnavailable(f"older {what} are archived; {known}; {INSTALL}")
    path: Path = folder / seal.file
    if not path.is_file():
        raise StoreUnavailable(f"{path} is missing; restore it, or name its folder with archive-folder; {known}")
    return path
