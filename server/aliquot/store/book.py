"""The record of what happened, over a database."""

import asyncio
from functools import partial
from pathlib import Path

from aliquot.service.auditing.ports import AuditQuery, Change, Holding
from aliquot.service.ledger.entries import PassEntry
from aliquot.service.ports import StoreUnavailable
from aliquot.store.archive.past_holdings import archived, merged, seals_after
from aliquot.store.audit import holdings, log
from aliquot.store.audit.following import follow_to_the_end
from aliquot.store.ledger import reading
from aliquot.store.runner import Runner


class DatabaseBook:
    """`aliquot.service.auditing.ports.AuditBook`; what the methods promise is said there."""

    archive: Path | None = None
    """The folder of archives; None = nobody has said where it is."""

    def __init__(self, database: Runner) -> None:
        self._database = database

    async def changes(self, query: AuditQuery) -> tuple[Change, ...]:
        return await self._database.read(partial(log.changes, query=query))

    async def held_at(self, device_id: str, at_us: int) -> tuple[Holding, ...]:
        await follow_to_the_end(self._database)
        kept = await self._database.read(partial(holdings.held_at, device_id=device_id, at_us=at_us))
        told = await self._database.read(partial(seals_after, first_us=at_us))
        if not told:
            return kept
        if self.archive is None:
            raise StoreUnavailable("who held what before is in archives, and nobody has said where they are")
        look = partial(archived, told, folder=self.archive, device_id=device_id, first_us=at_us, last_us=at_us)
        return merged(kept, await asyncio.to_thread(look))

    async def passes(self, *, before: int | None, limit: int) -> tuple[PassEntry, ...]:
        return await self._database.read(partial(reading.newest, before=before, limit=limit))
