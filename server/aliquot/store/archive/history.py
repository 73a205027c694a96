"""`aliquot.service.retention.ports.History` over a database and a folder; what its methods promise is said there."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Row

from aliquot.service.ports import NotLeader
from aliquot.service.retention.ports import AT_ONCE, HistoryDamaged, Kind, Sealed
from aliquot.store.archive import closed, events, passes, sessions
from aliquot.store.archive.deposit import Deposit
from aliquot.store.archive.folder import ArchiveFolder
from aliquot.store.archive.old_rows import OldRows
from aliquot.store.archive.sealing import Stretch, put_seals
from aliquot.store.runner import Runner
from aliquot.store.seals import HOLDINGS_KIND
from aliquot.store.tables import EVENTS
from aliquot_schema.ids import SessionId


class DatabaseHistory:
    """Made for one epoch; None = it is done by hand, whoever leads."""

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
            folder: None = what is old is removed without an archive.
            events_min: so many of the newest events stay however old they are; None = `events.KEPT_MIN`.
        """
        self._database = database
        self._folder = folder
        self._epoch = epoch
        self._now_us = now_us
        self._events_min = events_min

    async def seal_ledger(self, before_us: int) -> Sealed | None:
        stretch = await self._database.read(partial(passes.sealable, before_us=before_us))
        if stretch is None:
            return None
        previous = await self._database.read(passes.before_first)
        async with Deposit(self._folder, {stretch.kind: (stretch, passes.COLUMNS)}) as deposit:
            after = stretch.first - 1
            while after < stretch.last:
                rows = await self._database.read(partial(passes.page, after=after, last=stretch.last))
                previous = await asyncio.to_thread(passes.walked, rows, previous=previous)
                await deposit.put(stretch.kind, rows)
                after = rows[-1].number
            return await self._sealed(deposit, stretch)

    async def seal_events(self, before_us: int) -> Sealed | None:
        kept_min = events.KEPT_MIN if self._events_min is None else self._events_min
        ask = partial(events.sealable, before_us=before_us, kept_min=kept_min)
        stretch = await self._database.read(ask)
        if stretch is None:
            return None
        previous = await self._database.read(events.before_first)
        async with Deposit(self._folder, {stretch.kind: (stretch, tuple(EVENTS.c))}) as deposit:
            after = stretch.first - 1
            while after < stretch.last:
                rows = await self._database.read(partial(events.page, after=after, last=stretch.last))
                if not rows:
                    raise HistoryDamaged(f"event {after + 1} is missing")
                previous = await asyncio.to_thread(events.walked, rows, number=after + 1, previous=previous)
                await deposit.put(stretch.kind, rows)
                after = rows[-1].number
            return await self._sealed(deposit, stretch)

    async def seal_sessions(self, before_us: int) -> Sealed | None:
        found = await self._database.read(partial(sessions.old, before_us=before_us))
        return await self._seal_rows(found, sessions.OLD_SESSIONS)

    async def seal_closed(self, kind: Kind, before_us: int) -> Sealed | None:
        found = await self._database.read(partial(closed.old, kind=kind, before_us=before_us))
        return await self._seal_rows(found, closed.old_rows(kind))

    async def remove_passes(self) -> int:
        return await self._database.write(partial(passes.remove, epoch=self._epoch))

    async def remove_events(self) -> int:
        return await self._database.write(partial(events.remove, epoch=self._epoch))

    async def remove_closed(self, kind: Kind, versions: Mapping[str, int]) -> int:
        work = partial(closed.old_rows(kind).remove, versions=versions, epoch=self._epoch)
        return await self._database.write(work)

    async def remove_sessions(self, versions: Mapping[SessionId, int]) -> int:
        work = partial(sessions.OLD_SESSIONS.remove, versions=versions, epoch=self._epoch)
        return await self._database.write(work)

    async def _seal_rows(self, found: Sequence[Any], rows: OldRows) -> Sealed | None:
        """Seal what was found to be old, the oldest first; None where that is nothing."""
        if not found:
            return None
        versions = {str(row.id): int(row.version) for row in found}
        span = int(found[0].ended_us), int(found[-1].ended_us)
        told = await self._database.read(partial(rows.stretches, first=span[0], last=span[1]))
        names = list(versions)
        async with Deposit(self._folder, told) as deposit:
            for first in range(0, len(names), AT_ONCE):
                mine = names[first : first + AT_ONCE]
                for kind in told:
                    page = await self._database.read(partial(rows.read, kind=kind, names=mine))
                    await deposit.put(kind, page, last=_last_held(kind, page))
            return await self._sealed(deposit, told[rows.kind][0], versions=versions)

    async def _sealed(self, deposit: Deposit, stretch: Stretch, *, versions: Mapping[str, int] | None = None) -> Sealed:
        at_us = self._now_us()
        manifests = await deposit.finish(at_us=at_us)
        try:
            await self._database.write(partial(put_seals, stretches=manifests, epoch=self._epoch, at_us=at_us))
        except NotLeader:
            await deposit.withdraw(manifest for manifest in manifests.values() if manifest is not None)
            raise
        manifest = next(found for one, found in manifests.items() if one.id == stretch.id)
        return Sealed(
            id=stretch.id,
            first=stretch.first,
            last=stretch.last,
            rows=deposit.rows(stretch.kind),
            file=None if manifest is None else manifest.file,
            versions=versions or {},
        )


def _last_held(kind: str, rows: Sequence[Row[Any]]) -> int:
    """When the last of some holdings ended: their sessions may have ended before. 0 = they are no holdings."""
    return max((row.ended_us or 0 for row in rows), default=0) if kind == HOLDINGS_KIND else 0
