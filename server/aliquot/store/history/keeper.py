"""The keeper: what the thread of history does. Whatever fails is told once, and costs nothing but history."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from sqlalchemy import Connection

from aliquot.service.history.grids import Curves, Gathering, Grid
from aliquot.service.history.measures import MEASURES, Kind
from aliquot.service.history.ports import HistoryUnavailable, Tended
from aliquot.service.history.samples import Sample
from aliquot.store.faults import unavailability
from aliquot.store.history import rows
from aliquot.store.history.reading import pieces, read_piece, tier_of
from aliquot.store.history.rows import SeriesRow
from aliquot.store.history.summing import remove_old, sum_up
from aliquot.store.history.tiers import DAY_US, Kept, Tier
from aliquot.store.history.writer import Writer
from aliquot.store.store import Database, Work

T = TypeVar("T")

DRAIN_S: Final = 1.0
AGAIN_S: Final = 10.0
"""After a failure, until the database is asked again."""
DAMAGED: Final = "blocks of history are damaged; what they held is left out"

log: Final = logging.getLogger("aliquot.history")


class Keeper:
    """Made and used in one thread."""

    def __init__(
        self,
        database: Database,
        *,
        waiting: deque[Sample],
        kept: Kept,
        now_us: Callable[[], int],
        wall_us: Callable[[], int],
    ) -> None:
        """
        Args:
            waiting: samples, put in by another thread.
            wall_us: the clock by which something is too old.
        """
        self._fault: str | None = None
        self._damaged_us: int | None = None
        """When a damaged block was met last."""
        self._database = database
        self._waiting = waiting
        self._kept = kept
        self._now_us = now_us
        self._wall_us = wall_us
        self._writer = Writer()
        self._is_open = False
        self._is_ending = False
        self._draining: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._tending = asyncio.Lock()
        self._moving = asyncio.Lock()
        """Held while blocks move from memory to the database: whoever reads sees each in one of them."""

    @property
    def fault(self) -> str | None:
        """What does not work, in words."""
        return self._fault or (DAMAGED if self._is_damaged else None)

    async def begin(self) -> None:
        """Begin to take samples in."""
        self._draining = asyncio.create_task(self._drain_for_ever())

    async def end(self) -> None:
        """Write what is in memory, and let go."""
        self._is_ending = True
        async with self._moving:  # what is being written would go on, beside another that writes the same
            if self._draining is not None:
                self._draining.cancel()
        async with self._tending:
            try:
                await self.flush()
            except HistoryUnavailable as error:
                log.warning("the last minutes of history are lost: %s", error.message)
            await self._database.close()

    async def flush(self) -> None:
        """Write everything that was taken, whole windows or not."""
        self._drain()
        self._writer.end_all()
        await self._move()

    async def gathered(self, kind: Kind, name: str, grid: Grid, devices: frozenset[str] | None) -> dict[str, Curves]:
        """See `HistoryStore.gathered`."""
        async with self._moving:
            return await self._gathered(kind, name, grid, devices)

    async def tend(self) -> Tended:
        """See `HistoryStore.tend`."""
        written = removed = 0
        async with self._tending:
            await self._move()  # what could not be written for long would come too late to be summed up
            for one in await self._read(rows.series):
                for tier in (Tier.MINUTES, Tier.HOURS):
                    while not self._is_ending and await self._sum_up(one, tier):
                        written += 1
                        await asyncio.sleep(0)
                if self._is_ending:
                    break
                removed += await self._write(partial(self._remove, of=one))
        return Tended(written=written, removed=removed)

    async def _gathered(self, kind: Kind, name: str, grid: Grid, devices: frozenset[str] | None) -> dict[str, Curves]:
        self._drain()
        gathering, damaged = Gathering(grid, MEASURES[kind]), 0
        tier = tier_of(grid, self._kept, now_us=self._now_us())
        for one in await self._read(partial(rows.series, kind=kind, name=name)):
            for piece in pieces(one, grid, tier):
                read = partial(read_piece, one=one, piece=piece, into=gathering, devices=devices)
                damaged += await self._read(read)
                await asyncio.sleep(0)
        for stretch in self._writer.unwritten(kind, name):
            gathering.add(stretch, devices=devices)
        if damaged:
            if not self._is_damaged:
                log.warning("%s", DAMAGED)
            self._damaged_us = self._now_us()
        return gathering.curves()

    @property
    def _is_damaged(self) -> bool:
        # Such a block goes when it is old; nobody should be told of it for ever.
        return self._damaged_us is not None and self._now_us() - self._damaged_us < DAY_US

    async def _sum_up(self, one: SeriesRow, tier: Tier) -> bool:
        return await self._write(partial(sum_up, series=one.id, tier=tier, now_us=self._now_us()))

    def _remove(self, connection: Connection, *, of: SeriesRow) -> int:
        removed, is_empty = remove_old(connection, of.id, self._kept, now_us=self._wall_us())
        if is_empty and not self._writer.is_open(of.key):
            rows.remove_series(connection, of.id)
            self._writer.forget(of.key)
        return removed

    async def _drain_for_ever(self) -> None:
        while True:
            await asyncio.sleep(DRAIN_S if self._fault is None or not self._writer.has_blocks else AGAIN_S)
            try:
                self._drain()
                await self._move()
            except HistoryUnavailable:
                continue
            except Exception:
                log.exception("a part of history is lost")

    def _drain(self) -> None:
        while self._waiting:
            self._writer.take(self._waiting.popleft())
        self._writer.end_old(self._now_us())

    async def _move(self) -> None:
        async with self._moving:
            if self._writer.has_blocks:
                await self._writer.write(self._write)
                self._note(None)

    async def _write(self, work: Work[T]) -> T:
        return await self._try(lambda: self._database.write(work))

    async def _read(self, work: Work[T]) -> T:
        return await self._try(lambda: self._database.read(work))

    async def _try(self, work: Callable[[], Awaitable[T]]) -> T:
        try:
            await self._open()
            done = await work()
        except Exception as error:
            await self._let_go()
            known = unavailability(error)
            # What nobody foresaw quotes statements, and is for the log alone.
            words = f"history can be neither kept nor read now: {known or 'the log of the server says why'}"
            self._note(words, error=None if known else error)
            raise HistoryUnavailable(words) from error
        # A full disk can be read: all is well when what waits has been written.
        if not self._writer.has_blocks:
            self._note(None)
        return done

    async def _open(self) -> None:
        async with self._opening:
            if not self._is_open:
                await self._database.open()
                self._is_open = True
                self._writer.forget()

    async def _let_go(self) -> None:
        async with self._opening:
            self._is_open = False
            await self._database.close()

    def _note(self, fault: str | None, *, error: Exception | None = None) -> None:
        if (fault is None) != (self._fault is None):
            log.warning("%s", fault or "history is kept again", exc_info=error)
        self._fault = fault
