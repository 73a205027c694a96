"""The ports of the ledger over a database."""

import asyncio
from collections.abc import Sequence
from functools import partial

from aliquot.service.ledger.entries import PassEntry
from aliquot.service.ledger.ports import PassKey
from aliquot.store.audit.following import follow
from aliquot.store.ledger import reading, writing
from aliquot.store.ledger.packing import pack
from aliquot.store.queries import events_after
from aliquot.store.runner import Runner
from aliquot_schema.events import Event


class DatabaseLedger:
    """`LedgerStore` and `LedgerReader`; what the methods promise is said there."""

    def __init__(self, database: Runner) -> None:
        self._database = database

    async def append(self, entries: Sequence[PassEntry]) -> None:
        packed = await asyncio.to_thread(lambda: [pack(entry) for entry in entries])
        await self._database.write(partial(writing.append, packed=packed, epoch=entries[-1].epoch))

    async def missing(self) -> int:
        return await self._database.read(writing.missing)

    async def follow(self) -> bool:
        return await self._database.write(follow)

    async def last(self, count: int) -> tuple[PassKey, ...]:
        return await self._database.read(partial(reading.last, count=count))

    async def checkpoint_before(self, number: int) -> PassKey | None:
        return await self._database.read(partial(reading.checkpoint_before, number=number))

    async def entries(self, *, first: int, last: int, limit: int) -> tuple[PassEntry, ...]:
        return await self._database.read(partial(reading.entries, first=first, last=last, limit=limit))

    async def events_after(self, number: int, *, limit: int) -> tuple[Event, ...]:
        return await self._database.read(partial(events_after, number=number, limit=limit))
