"""Recording: writes passes to the ledger behind the allocator's back, so that no placement waits for it."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from aliquot.service.ledger.changes import Sequel
from aliquot.service.ledger.code_version import code_version
from aliquot.service.ledger.entries import PassEntry
from aliquot.service.ledger.ports import LedgerStore
from aliquot.service.ledger.watch import Watch
from aliquot.service.ports import Clock, NotLeader, StoreUnavailable
from aliquot.service.state import State

log: Final = logging.getLogger("aliquot.ledger")

FLUSH_S: Final = 0.5
FOLLOW_S: Final = 0.05
"""Between pages, so that commits wait for one page at most."""
RETRY_S: Final = 2.0
UNWRITTEN_MAX: Final = 5000
"""Passes kept while the ledger cannot be written. When there are more, they are lost, and the next entry says so."""
CLOSE_S: Final = 10.0
"""A database that does not answer keeps no server from following, or from ending."""


class Recording:
    """Takes passes from a watch; entries are made in a thread of its own."""

    def __init__(self, watch: Watch, *, ledger: LedgerStore, clock: Clock, sequel: Sequel) -> None:
        self.watch = watch
        self._ledger = ledger
        self._clock = clock
        self._sequel = sequel
        self._unwritten: list[PassEntry] = []
        self._making: asyncio.Future[list[PassEntry]] | None = None
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        self.is_over = False
        """Another server leads, and writes the ledger now."""

    async def run(self) -> None:
        """Write for ever what there is to write."""
        self.watch.lost += await self._missing()
        while not self.is_over:
            await self.watch.news.wait()
            await self._clock.sleep(FLUSH_S)
            self.watch.news.clear()
            try:
                await self.flush()
                while await self._ledger.follow():
                    await self._clock.sleep(FOLLOW_S)
            except StoreUnavailable as error:
                log.error("the decision ledger cannot be written now: %s", error)
                self._give_up_if_full()
                self.watch.news.set()
                await self._clock.sleep(RETRY_S)
            except Exception:
                # Decisions go on without it; how many are missing is told by the next entry that can be written.
                log.exception("the decision ledger could not be written")
                self._give_up()
                await self._clock.sleep(RETRY_S)

    async def flush(self) -> None:
        """Write what was decided so far.

        Raises:
            StoreUnavailable: it will be tried again with what comes next.
        """
        await self._made()
        passes, lost = self.watch.take()
        if passes:
            loop = asyncio.get_running_loop()
            self._making = loop.run_in_executor(self._worker, self._sequel.entries, passes, lost)
            await self._made()
        if not self._unwritten:
            return
        try:
            await self._ledger.append(self._unwritten)
        except NotLeader as error:
            log.warning("the decision ledger is written by another server now: %s", error)
            self.is_over = True
            self.watch.stop()
        self._unwritten = []

    async def close(self) -> None:
        """Write what is left."""
        try:
            async with asyncio.timeout(CLOSE_S):
                await self.flush()
        except (StoreUnavailable, TimeoutError) as error:
            log.error("the decision ledger lacks the last %d passes: %s", len(self._unwritten), error)
        finally:
            self._worker.shutdown()

    async def _made(self) -> None:
        """Entries that are being made come first, even if who waited for them was canceled."""
        if self._making is not None:
            self._unwritten += await asyncio.shield(self._making)
            self._making = None
            if self._sequel.is_long:
                self.watch.want_checkpoint()

    async def _missing(self) -> int:
        """Passes of servers before this one that have events and no entry: they ended before it was written."""
        try:
            missing = await self._ledger.missing()
        except StoreUnavailable:
            return 0
        if missing:
            log.warning("%d passes before this start are missing in the decision ledger", missing)
        return missing

    def _give_up_if_full(self) -> None:
        if len(self._unwritten) > UNWRITTEN_MAX:
            self._give_up()

    def _give_up(self) -> None:
        self.watch.lose(len(self._unwritten))
        self._unwritten, self._making = [], None


def recording_of(state: State, epoch: int, ledger: LedgerStore, clock: Clock) -> Recording:
    """Records what is decided on a state, in a leader's epoch."""
    return Recording(Watch(state), ledger=ledger, clock=clock, sequel=Sequel(epoch=epoch, code_version=code_version))
