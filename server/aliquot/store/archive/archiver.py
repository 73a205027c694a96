"""Archiver: implements `aliquot.service.retention.ports.History` over a database and a folder."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Row

from aliquot.service.ports import NotLeader
from aliquot.service.retention import AT_ONCE, HistoryDamaged, RetainedKind, SealedArchive
from aliquot.store.archive import closed_records, events, passes, sessions
from aliquot.store.archive.folder import ArchiveFolder
from aliquot.store.archive.old_rows import OldRows
from aliquot.store.archive.sealing import ArchiveBatch, EventRange, put_seals
from aliquot.store.engines.database import Runner
from aliquot.store.hash_chain import HOLDINGS_KIND
from aliquot.store.tables import EVENTS
from aliquot_schema.ids import SessionId


class DatabaseHistory:
    """Seals old rows into files and removes them; the port documents the methods."""

    def __init__(
        self,
        database: Runner,
        *,
        folder: ArchiveFolder | None,
        epoch: int | None,
        now_us: Callable[[], int],
        events_min: int | None = None,
    ) -> None:
        """
        Args:
            folder: None = old rows are removed without an archive.
            epoch: the epoch in which this server leads; None = a command, valid in any epoch.
            events_min: number of newest events kept regardless of age; None = `events.KEPT_MIN`.
        """
        self._database = database
        self._folder = folder
        self._epoch = epoch
        self._now_us = now_us
        self._events_min = events_min

    async def seal_ledger(self, before_us: int) -> SealedArchive | None:
        segment = await self._database.read(partial(passes.sealable, before_us=before_us))
        if segment is None:
            return None
        previous = await self._database.read(passes.before_first)
        async with ArchiveBatch(self._folder, {segment.kind: (segment, passes.COLUMNS)}) as batch:
            after = segment.first - 1
            while after < segment.last:
                rows = await self._database.read(partial(passes.page, after=after, last=segment.last))
                if not rows:
                    raise HistoryDamaged(f"a pass after {after} is missing")
                previous = await asyncio.to_thread(passes.check_links, rows, previous=previous)
                await batch.put(segment.kind, rows)
                after = rows[-1].number
            return await self._sealed(batch, segment)

    async def seal_events(self, before_us: int) -> SealedArchive | None:
        kept_min = events.KEPT_MIN if self._events_min is None else self._events_min
        ask = partial(events.sealable, before_us=before_us, kept_min=kept_min)
        segment = await self._database.read(ask)
        if segment is None:
            return None
        previous = await self._database.read(events.before_first)
        async with ArchiveBatch(self._folder, {segment.kind: (segment, tuple(EVENTS.c))}) as batch:
            after = segment.first - 1
            while after < segment.last:
                rows = await self._database.read(partial(events.page, after=after, last=segment.last))
                if not rows:
                    raise HistoryDamaged(f"event {after + 1} is missing")
                previous = await asyncio.to_thread(events.check_links, rows, number=after + 1, previous=previous)
                await batch.put(segment.kind, rows)
                after = rows[-1].number
            return await self._sealed(batch, segment)

    async def seal_sessions(self, before_us: int) -> SealedArchive | None:
        found = await self._database.read(partial(sessions.old, before_us=before_us))
        return await self._seal_rows(found, sessions.OLD_SESSIONS)

    async def seal_closed(self, kind: RetainedKind, before_us: int) -> SealedArchive | None:
        found = await self._database.read(partial(closed_records.old, kind=kind, before_us=before_us))
        return await self._seal_rows(found, closed_records.old_rows(kind))

    async def remove_passes(self) -> int:
        return await self._database.write(partial(passes.remove, epoch=self._epoch))

    async def remove_events(self) -> int:
        return await self._database.write(partial(events.remove, epoch=self._epoch))

    async def remove_closed(self, kind: RetainedKind, versions: Mapping[str, int]) -> int:
        work = partial(closed_records.old_rows(kind).remove, versions=versions, epoch=self._epoch)
        return await self._database.write(work)

    async def remove_sessions(self, versions: Mapping[SessionId, int]) -> int:
        work = partial(sessions.OLD_SESSIONS.remove, versions=versions, epoch=self._epoch)
        return await self._database.write(work)

    async def _seal_rows(self, found: Sequence[Any], rows: OldRows) -> SealedArchive | None:
        """Seal old rows, oldest first; None if there are none."""
        if not found:
            return None
        versions = {str(row.id): int(row.version) for row in found}
        span = int(found[0].ended_us), int(found[-1].ended_us)
        segments = await self._database.read(partial(rows.segments, first=span[0], last=span[1]))
        names = list(versions)
        async with ArchiveBatch(self._folder, segments) as batch:
            for first in range(0, len(names), AT_ONCE):
                mine = names[first : first + AT_ONCE]
                for kind in segments:
                    page = await self._database.read(partial(rows.read, kind=kind, names=mine))
                    await batch.put(kind, page, last=_last_held(kind, page))
            return await self._sealed(batch, segments[rows.kind][0], versions=versions)

    async def _sealed(
        self, batch: ArchiveBatch, segment: EventRange, *, versions: Mapping[str, int] | None = None
    ) -> SealedArchive:
        at_us = self._now_us()
        manifests = await batch.finish(at_us=at_us)
        try:
            await self._database.write(partial(put_seals, segments=manifests, epoch=self._epoch, at_us=at_us))
        except NotLeader:
            await batch.remove_files(manifest for manifest in manifests.values() if manifest is not None)
            raise
        manifest = next(found for one, found in manifests.items() if one.id == segment.id)
        return SealedArchive(
            id=segment.id,
            first=segment.first,
            last=segment.last,
            rows=batch.rows(segment.kind),
            file=None if manifest is None else manifest.file,
            versions=versions or {},
        )


def _last_held(kind: str, rows: Sequence[Row[Any]]) -> int:
    """Latest end of holdings, which may be later than that of their sessions; 0 for other kinds."""
    return max((row.ended_us or 0 for row in rows), default=0) if kind == HOLDINGS_KIND else 0
