"""Time-series writer: turns samples into blocks, writes and rolls them up, and reads curves, all in one thread.

A failure is logged once and affects history only. Blocks wait in memory until the database accepts them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from sqlalchemy import Connection

from aliquot.service.history.grids import Curves, Grid, GridAggregator, GridSpan
from aliquot.service.history.measures import MEASURES, MeasureKind, Sample
from aliquot.service.history.ports import HistoryUnavailable, MaintenanceResult
from aliquot.store.engines.database import unavailability
from aliquot.store.store import Database, Work
from aliquot.store.timeseries import rows
from aliquot.store.timeseries.blocks import decode, encode
from aliquot.store.timeseries.rollup import read_range, read_ranges, remove_expired, roll_up, tier_for
from aliquot.store.timeseries.rows import Block, SeriesRow
from aliquot.store.timeseries.tiers import DAY_US, Tier, TierRetention
from aliquot.store.timeseries.windows import SeriesKey, Windows

WAITING_MAX: Final = 20_000
"""Unwritten blocks; the oldest are dropped above this. With 1,000 agents it is more than an hour."""
WRITE_BLOCKS: Final = 100
"""Blocks per transaction."""

Write = Callable[[Work[dict[SeriesKey, int]]], Awaitable[dict[SeriesKey, int]]]


class BlockBuffer:
    """Open windows, and complete blocks that are not written yet. Used in one thread."""

    def __init__(self) -> None:
        self._windows = Windows()
        self._waiting: deque[Block] = deque(maxlen=WAITING_MAX)
        self._series_ids: dict[SeriesKey, int] = {}

    def take(self, sample: Sample) -> None:
        """Add a sample."""
        self._encode(self._windows.take(sample))

    def close_ended(self, now_us: int) -> None:
        """Turn windows that accept no more samples into blocks."""
        self._encode(self._windows.ended(now_us))

    def close_all(self) -> None:
        """Turn all windows into blocks."""
        self._encode(self._windows.all())

    async def write(self, write: Write) -> None:
        """Write the waiting blocks. After an error, unwritten ones keep waiting."""
        while self._waiting:
            some = list(islice(self._waiting, WRITE_BLOCKS))
            self._series_ids |= await write(partial(rows.add_raw, blocks=some, known=self._series_ids))
            for _ in some:
                self._waiting.popleft()

    @property
    def has_blocks(self) -> bool:
        """Whether blocks wait to be written."""
        return bool(self._waiting)

    def unwritten(self, kind: MeasureKind, name: str) -> Iterable[GridSpan]:
        """Unwritten samples of an agent or of the queue."""
        mine = [(key, body) for key, _, body in self._waiting if key.matches(kind, name)]
        blocks = [decode(body, MEASURES[kind], key.devices) for key, body in mine]
        return [*blocks, *self._windows.buffered(kind, name)]

    def is_buffered(self, key: SeriesKey) -> bool:
        """Whether a series has samples in memory."""
        return key in self._windows or any(key == waiting for waiting, _, _ in self._waiting)

    def forget(self, key: SeriesKey | None = None) -> None:
        """Drop the cached id of a series that was removed; None = drop all of them."""
        if key is None:
            self._series_ids.clear()
        else:
            self._series_ids.pop(key, None)

    def _encode(self, whole: Iterable[tuple[SeriesKey, GridSpan]]) -> None:
        for key, span in whole:
            body = encode(span, MEASURES[key.kind], has_maxima=False)
            self._waiting.append((key, int(span.at_us[0]), body))


T = TypeVar("T")

DRAIN_S: Final = 1.0
RETRY_S: Final = 10.0
"""Delay before the next attempt after a failure."""
DAMAGED: Final = "some blocks of history are damaged; their measurements are missing"

log: Final = logging.getLogger("aliquot.history")


class HistoryWriter:
    """Writes, rolls up and reads the time series. Created and used in one thread."""

    def __init__(
        self,
        database: Database,
        *,
        waiting: deque[Sample],
        kept: TierRetention,
        now_us: Callable[[], int],
        wall_us: Callable[[], int],
    ) -> None:
        """
        Args:
            waiting: samples, added by another thread.
            wall_us: wall clock for retention, microseconds UTC.
        """
        self._fault: str | None = None
        self._damaged_us: int | None = None
        """Time of the last read of a damaged block."""
        self._database = database
        self._waiting = waiting
        self._kept = kept
        self._now_us = now_us
        self._wall_us = wall_us
        self._buffer = BlockBuffer()
        self._is_open = False
        self._is_ending = False
        self._drain_task: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._maintenance = asyncio.Lock()
        self._transfer = asyncio.Lock()
        """Held while blocks move from memory to the database, so that a read sees each block exactly once."""

    @property
    def fault(self) -> str | None:
        """The present fault as a sentence; None if there is none."""
        return self._fault or (DAMAGED if self._is_damaged else None)

    async def begin(self) -> None:
        """Start processing samples."""
        self._drain_task = asyncio.create_task(self._drain_forever())

    async def end(self) -> None:
        """Write what is in memory, and disconnect."""
        self._is_ending = True
        async with self._transfer:  # a write in progress would continue beside `flush`, which writes the same blocks
            if self._drain_task is not None:
                self._drain_task.cancel()
        async with self._maintenance:
            try:
                await self.flush()
            except HistoryUnavailable as error:
                log.warning("history of the last minutes could not be written and is lost: %s", error.message)
            await self._database.close()

    async def flush(self) -> None:
        """Write all samples, including those of incomplete windows."""
        self._drain()
        self._buffer.close_all()
        await self._write_blocks()

    async def gathered(
        self, kind: MeasureKind, name: str, grid: Grid, devices: frozenset[str] | None
    ) -> dict[str, Curves]:
        """See `HistoryStore.gathered`."""
        async with self._transfer:
            return await self._gathered(kind, name, grid, devices)

    async def maintain(self) -> MaintenanceResult:
        """See `HistoryStore.maintain`."""
        written = removed = 0
        async with self._maintenance:
            # Blocks delayed by a long failure must be written before their window is rolled up.
            await self._write_blocks()
            for one in await self._read(rows.series):
                for tier in (Tier.MINUTES, Tier.HOURS):
                    while not self._is_ending and await self._roll_up(one, tier):
                        written += 1
                        await asyncio.sleep(0)
                if self._is_ending:
                    break
                removed += await self._write(partial(self._remove, of=one))
        return MaintenanceResult(written=written, removed=removed)

    async def _gathered(
        self, kind: MeasureKind, name: str, grid: Grid, devices: frozenset[str] | None
    ) -> dict[str, Curves]:
        self._drain()
        gathering, damaged = GridAggregator(grid, MEASURES[kind]), 0
        tier = tier_for(grid, self._kept, now_us=self._now_us())
        for one in await self._read(partial(rows.series, kind=kind, name=name)):
            for part in read_ranges(one, grid, tier):
                read = partial(read_range, one=one, part=part, into=gathering, devices=devices)
                damaged += await self._read(read)
                await asyncio.sleep(0)
        for span in self._buffer.unwritten(kind, name):
            gathering.add(span, devices=devices)
        if damaged:
            if not self._is_damaged:
                log.warning("%s", DAMAGED)
            self._damaged_us = self._now_us()
        return gathering.curves()

    @property
    def _is_damaged(self) -> bool:
        # Retention removes a damaged block some time; the fault is reported for a day after the last read of one.
        return self._damaged_us is not None and self._now_us() - self._damaged_us < DAY_US

    async def _roll_up(self, one: SeriesRow, tier: Tier) -> bool:
        return await self._write(partial(roll_up, series=one.id, tier=tier, now_us=self._now_us()))

    def _remove(self, connection: Connection, *, of: SeriesRow) -> int:
        removed, is_empty = remove_expired(connection, of.id, self._kept, now_us=self._wall_us())
        if is_empty and not self._buffer.is_buffered(of.key):
            rows.remove_series(connection, of.id)
            self._buffer.forget(of.key)
        return removed

    async def _drain_forever(self) -> None:
        while True:
            await asyncio.sleep(DRAIN_S if self._fault is None or not self._buffer.has_blocks else RETRY_S)
            try:
                self._drain()
                await self._write_blocks()
            except HistoryUnavailable:
                continue
            except Exception:
                log.exception("some measurements could not be stored and are lost")

    def _drain(self) -> None:
        while self._waiting:
            self._buffer.take(self._waiting.popleft())
        self._buffer.close_ended(self._now_us())

    async def _write_blocks(self) -> None:
        async with self._transfer:
            if self._buffer.has_blocks:
                await self._buffer.write(self._write)
                self._set_fault(None)

    async def _write(self, work: Work[T]) -> T:
        return await self._call(lambda: self._database.write(work))

    async def _read(self, work: Work[T]) -> T:
        return await self._call(lambda: self._database.read(work))

    async def _call(self, work: Callable[[], Awaitable[T]]) -> T:
        try:
            await self._open()
            done = await work()
        except Exception as error:
            await self._disconnect()
            known = unavailability(error)
            # Unexpected errors quote SQL statements and go to the log only.
            words = f"history can be neither stored nor read now: {known or 'see the log of the server'}"
            self._set_fault(words, error=None if known else error)
            raise HistoryUnavailable(words) from error
        # Reads work on a full disk: the fault ends only when the waiting blocks are written.
        if not self._buffer.has_blocks:
            self._set_fault(None)
        return done

    async def _open(self) -> None:
        async with self._opening:
            if not self._is_open:
                await self._database.open()
                self._is_open = True
                self._buffer.forget()

    async def _disconnect(self) -> None:
        async with self._opening:
            self._is_open = False
            await self._database.close()

    def _set_fault(self, fault: str | None, *, error: Exception | None = None) -> None:
        if (fault is None) != (self._fault is None):
            log.warning("%s", fault or "history is stored again", exc_info=error)
        self._fault = fault
