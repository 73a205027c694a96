"""Pass recorder: captures every pass on the event loop, and writes it to the decision ledger in the background.

Placements never wait for the ledger. Passes that cannot be written are counted as lost, and the next entry says how
many.
"""

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from msgspec import Struct

from aliquot.core.model.plan import BacklogPeak, Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import Snapshot
from aliquot.core.prediction import RunTimes, Workload
from aliquot.service.ledger.changes import (
    CheckpointRecords,
    EntryBuilder,
    Pass,
    checkpoint_records,
    estimates_of,
    workloads_of,
)
from aliquot.service.ledger.entries import LedgerStore, PassEntry, code_version
from aliquot.service.ports import Clock, NotLeader, StoreUnavailable
from aliquot.service.state.agents import Blocked
from aliquot.service.state.state import State
from aliquot_schema.async_tasks import run_shielded
from aliquot_schema.events import Event
from aliquot_schema.ids import PoolId, SessionId
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.sessions import Session

log: Final = logging.getLogger("aliquot.ledger")


class _OpenPass(Struct, frozen=True, kw_only=True):
    snapshot: Snapshot
    rules: Policy
    policy: PolicyDocument
    estimates: dict[SessionId, RunTimes]
    workloads: dict[SessionId, Workload]
    records: CheckpointRecords | None
    foreign_usage: Blocked


class PassObserver:
    """Implements `PassWatcher`, and listens to the journal's events."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._touched: dict[SessionId, None] = {}
        self._recorded: dict[SessionId, RunTimes | Workload] = {}
        self._begun: _OpenPass | None = None
        self._ended: list[Pass] = []
        self._is_due = True
        self._is_broken = True
        """Whether the next pass has no predecessor to be compared with."""
        self._is_stopped = False
        self.lost = 0
        """Lost passes not yet recorded in an entry."""
        self.news = asyncio.Event()

    def on_event(self, event: Event) -> None:
        """Note an event; the prediction of its session may change with it."""
        if isinstance(event.record, Session):
            self._touched[event.record.id] = None

    def begins(self, snapshot: Snapshot, rules: Policy) -> None:
        """See `PassWatcher`."""
        records = checkpoint_records(self._state) if self._is_due else None
        if records is None:
            estimates, workloads = self._changed()
        else:
            estimates, workloads = estimates_of(self._state), workloads_of(self._state)
            self._recorded = {**estimates, **workloads}
        self._touched.clear()
        self._begun = _OpenPass(
            snapshot=snapshot,
            rules=rules,
            policy=self._state.policy,
            estimates=estimates,
            workloads=workloads,
            records=records,
            foreign_usage=self._state.foreign_usage.blocked,
        )

    def ends(self, plan: Plan, *, number: int, now_us: int, seed: int) -> None:
        """See `PassWatcher`."""
        begun, self._begun = self._begun, None
        if begun is None or self._is_stopped:
            return
        if begun.records is not None:
            self._is_due = self._is_broken = False
        elif self._is_broken:
            self.lost += 1
            return
        self._ended.append(
            Pass(
                number=number,
                now_us=now_us,
                seed=seed,
                snapshot=begun.snapshot,
                rules=begun.rules,
                policy=begun.policy,
                estimates=begun.estimates,
                workloads=begun.workloads,
                records=begun.records,
                foreign_usage=begun.foreign_usage,
                plan=plan,
            )
        )
        self.news.set()

    def take(self) -> tuple[list[Pass], int]:
        """Passes that ended since the last call, and the number of passes lost before them."""
        ended, self._ended = self._ended, []
        lost = self.lost if ended else 0
        self.lost -= lost
        return ended, lost

    def want_checkpoint(self) -> None:
        """Capture a checkpoint with the next pass."""
        self._is_due = True

    def lose(self, count: int) -> None:
        """Count `count` passes, and all that were not taken yet, as lost."""
        self.lost += count + len(self._ended)
        log.error("the decision ledger lost %d passes", self.lost)
        self._ended = []
        self._is_due = self._is_broken = True

    def stop(self) -> None:
        """Stop capturing passes."""
        self._is_stopped = True
        self._ended = []

    def _changed(self) -> tuple[dict[SessionId, RunTimes], dict[SessionId, Workload]]:
        """Predictions of started sessions, and workloads of waiting ones, that differ from those recorded last."""
        estimates: dict[SessionId, RunTimes] = {}
        workloads: dict[SessionId, Workload] = {}
        for session_id in self._touched:
            row, forecast = self._state.pending.get(session_id), self._state.forecasts.of(session_id)
            if row is not None:
                if row.workload is not None and self._recorded.get(session_id) != row.workload:
                    self._recorded[session_id] = workloads[session_id] = row.workload
            elif forecast is None:
                self._recorded.pop(session_id, None)
            elif self._recorded.get(session_id) != forecast.run_times:
                self._recorded[session_id] = estimates[session_id] = forecast.run_times
        return estimates, workloads


FLUSH_S: Final = 0.5
FOLLOW_S: Final = 0.05
"""Pause between pages, so that commits wait for one page at most."""
RETRY_S: Final = 2.0
UNWRITTEN_MAX: Final = 5000
"""Passes kept in memory while the ledger cannot be written; beyond that, all of them are lost."""
CLOSE_S: Final = 10.0
"""Timeout of `close`, so that a silent database does not block a change of leader or a shutdown."""


class PassRecorder:
    """Takes passes from an observer; entries are built in a worker thread."""

    def __init__(self, watch: PassObserver, *, ledger: LedgerStore, clock: Clock, builder: EntryBuilder) -> None:
        self.watch = watch
        self._ledger = ledger
        self._clock = clock
        self._builder = builder
        self._unwritten: list[PassEntry] = []
        self._building: asyncio.Future[list[PassEntry]] | None = None
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        self.is_over = False
        """Whether another server leads and writes the ledger."""

    async def run(self) -> None:
        """Write passes as they end; returns when another server leads."""
        self.watch.lost += await self._missing()
        is_impaired = False
        while not self.is_over:
            await self.watch.news.wait()
            await self._clock.sleep(FLUSH_S)
            self.watch.news.clear()
            try:
                await self.flush()
                while await self._ledger.follow():
                    await self._clock.sleep(FOLLOW_S)
                if is_impaired:
                    log.warning("the decision ledger is written again")
                is_impaired = False
            except StoreUnavailable as error:
                if not is_impaired:
                    log.error("the decision ledger cannot be written, retrying: %s", error)
                is_impaired = True
                self._drop_if_full()
                self.watch.news.set()
                await self._clock.sleep(RETRY_S)
            except Exception:
                # Scheduling continues without the ledger; the next entry written records the number of lost passes.
                log.exception("the decision ledger could not be written")
                self._drop()
                await self._clock.sleep(RETRY_S)

    async def flush(self) -> None:
        """Write the passes that ended so far.

        Raises:
            StoreUnavailable: the entries are kept, and written by the next call.
        """
        await self._collect()
        passes, lost = self.watch.take()
        if passes:
            loop = asyncio.get_running_loop()
            self._building = loop.run_in_executor(self._worker, self._builder.entries, passes, lost)
            await self._collect()
        if not self._unwritten:
            return
        try:
            await self._ledger.append(self._unwritten)
        except NotLeader as error:
            log.warning("another server writes the decision ledger now: %s", error)
            self.is_over = True
            self.watch.stop()
        self._unwritten = []

    async def close(self) -> None:
        """Write the remaining passes, within `CLOSE_S`."""
        try:
            async with asyncio.timeout(CLOSE_S):
                await self.flush()
        except (StoreUnavailable, TimeoutError) as error:
            log.error("the decision ledger lacks the last %d passes: %s", len(self._unwritten), error)
        finally:
            self._worker.shutdown()

    async def _collect(self) -> None:
        """Collect the entries being built, also those of a call that was canceled."""
        if self._building is not None:
            built = await run_shielded(self._building)
            self._unwritten += built
            self._building = None
            if self._builder.is_long:
                self.watch.want_checkpoint()

    async def backlogs(self) -> Mapping[PoolId, BacklogPeak]:
        """Peaks of the backlogs in the ledger; empty when it cannot be read."""
        try:
            return await self._ledger.backlogs()
        except StoreUnavailable:
            return {}

    async def _missing(self) -> int:
        """Number of passes of earlier leaders with events but no entry: those servers ended before writing it."""
        try:
            missing = await self._ledger.missing()
        except StoreUnavailable:
            return 0
        if missing:
            log.warning("%d passes before this start are missing in the decision ledger", missing)
        return missing

    def _drop_if_full(self) -> None:
        if len(self._unwritten) > UNWRITTEN_MAX:
            self._drop()

    def _drop(self) -> None:
        self.watch.lose(len(self._unwritten))
        self._unwritten, self._building = [], None


def recording_of(state: State, epoch: int, ledger: LedgerStore, clock: Clock) -> PassRecorder:
    """The recorder of a leader's epoch."""
    return PassRecorder(
        PassObserver(state), ledger=ledger, clock=clock, builder=EntryBuilder(epoch=epoch, code_version=code_version)
    )
