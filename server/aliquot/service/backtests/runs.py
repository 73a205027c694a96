"""Backtest runs: the queue of a server, which runs one backtest at a time and saves its progress and result.

A backtest that its server left unfinished is run again, from its beginning, by the next server that sees it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any, Final

from msgspec.structs import replace

from aliquot.service.backtests.policy_trial import BY_TUNING, apply_on_trial
from aliquot.service.backtests.ports import (
    INTERRUPTED,
    INTERRUPTIONS_MAX,
    KEPT_MAX,
    KILLED,
    LOST_S,
    OPEN,
    BacktestNews,
    BacktestOrder,
    BacktestSources,
    StoredBacktest,
    requeued,
)
from aliquot.service.ports import Clock, StoreUnavailable
from aliquot.service.state.journal import Journal
from aliquot.service.views.terms import moment
from aliquot_schema.errors import Unavailable, VersionConflict
from aliquot_schema.views.backtests import BacktestState, BacktestView, TuningReport

SAVE_S: Final = 5.0
"""How often the progress of a backtest is saved."""
log: Final = logging.getLogger("aliquot.policy")


class BacktestRuns:
    """Backtests that this server runs, and the kept ones of all servers."""

    def __init__(self, sources: BacktestSources, *, journal: Journal, clock: Clock) -> None:
        self._sources = sources
        self._journal = journal
        self._clock = clock
        self._views: dict[str, BacktestView] = {}
        """Backtests of this server whose end is not saved yet."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._known_us: dict[str, frozenset[int]] = {}
        """When this server saved the row of a task last: several times, if the database could not confirm a write."""
        self._refused: deque[str] = deque(maxlen=KEPT_MAX)
        """Backtests whose caller got an error instead, and may have begun another one; the database may have them."""
        self._unreadable: deque[str] = deque(maxlen=KEPT_MAX)
        """Backtests that could not be taken over, which is logged once: their rows are damaged."""
        self._turn = asyncio.Lock()
        self._saves: dict[str, tuple[int, float]] = {}
        """When each unfinished backtest was saved last, and the monotonic time when this server first saw that: clocks
        of servers differ. Empty after the database could not be read, as no server can save then."""
        self._applying = ""  # the tuning whose proposal is being committed, or was last

    @property
    def waiting(self) -> int:
        """How many wait for the running one."""
        return sum(view.state is BacktestState.QUEUED for view in self._views.values())

    async def begin(self, view: BacktestView, order: BacktestOrder) -> BacktestView:
        """Queue a new one."""
        self._views[view.id] = view
        now_us = self._clock.now_us()
        try:
            await self._sources.records.begin(view, order, now_us=now_us)
        except BaseException:
            del self._views[view.id]
            self._refused.append(view.id)
            raise
        self._start(view, order, saved_us=now_us)
        return view

    async def resume(self) -> None:
        """Take over the backtests that their servers left unfinished, the oldest first.

        One whose server did not stop in order waits until this server has seen no save of it for `LOST_S`, while the
        database could be read: its server may be alive, and save it as soon as the database is back.
        """
        at_s = self._clock.monotonic()  # of before the read, which may take long
        try:
            await self._resume_left(at_s)
        except StoreUnavailable:
            self._saves.clear()
            raise

    async def find(self, name: str) -> BacktestView | None:
        """A kept backtest with its result."""
        if name in self._views:
            return self._views[name]
        stored = await self._sources.records.find(name)
        return None if stored is None else self._now(stored)

    async def newest(self) -> Iterator[BacktestView]:
        """The kept backtests, newest first."""
        here = dict(self._views)
        stored = await self._sources.records.newest()
        views = {one.view.id: self._now(one) for one in stored} | here | self._views  # some began or ended meanwhile
        return (views[name] for name in sorted(views, reverse=True))

    async def cancel(self, canceled: BacktestView) -> BacktestView:
        """End a backtest. Another server that runs it stops it when it saves the progress."""
        name = canceled.id
        if name in self._tasks:
            self._tasks.pop(name).cancel()
            self._known_us.pop(name, None)
            self._views[name] = canceled
        try:
            is_canceled = await self._sources.records.update(canceled, now_us=self._clock.now_us())
        finally:
            self._views.pop(name, None)
        stored = None if is_canceled else await self._sources.records.find(name)
        return canceled if stored is None else self._now(stored)  # it had just ended

    async def close(self) -> None:
        """Stop all backtests. Another server, or this one after its restart, runs them again."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for name in list(self._tasks):
            if name not in self._tasks:
                continue  # canceled meanwhile
            view = self._views[name]
            if not await (self._leave(view) if view.state in OPEN else self._save(view, now_us=self._clock.now_us())):
                break  # each try may take seconds

    async def until_applied(self, name: str) -> None:
        """Wait for a proposal that is being applied: a commit under way cannot be withdrawn."""
        if self._applying == name and name in self._tasks:
            await asyncio.wait([self._tasks[name]])

    async def amend(self, view: BacktestView) -> None:
        """Save a change of one that has ended."""
        if view.id in self._tasks:
            self._views[view.id] = view
        await self._save(view, now_us=self._clock.now_us())

    async def _resume_left(self, at_s: float) -> None:
        stored = await self._sources.records.newest()
        seen_s = self._clock.monotonic()
        self._saves = {one.view.id: self._save_seen(one, seen_s) for one in stored if one.view.state in OPEN}
        for one in reversed(stored):
            try:
                await self._resume_one(one, at_s)
            except StoreUnavailable:
                raise
            except Exception:
                if one.view.id not in self._unreadable:
                    self._unreadable.append(one.view.id)
                    log.exception("%s was left unfinished, and cannot be taken over", one.view.id)

    async def _resume_one(self, one: StoredBacktest, at_s: float) -> None:
        if one.view.id in self._refused and one.view.state in OPEN:
            canceled = replace(one.view, state=BacktestState.CANCELED)
            await self._sources.records.update(canceled, now_us=self._clock.now_us())
        elif one.view.id not in self._views and self._is_left(one, at_s):
            await self._take_over(one.view.id, at_s)

    def _save_seen(self, one: StoredBacktest, seen_s: float) -> tuple[int, float]:
        """Its last save, and when this server first saw that; `seen_s` if it is new."""
        known = self._saves.get(one.view.id)
        return known if known is not None and known[0] == one.saved_us else (one.saved_us, seen_s)

    def _is_left(self, one: StoredBacktest, at_s: float) -> bool:
        is_silent = not self._sources.is_shared or at_s - self._save_seen(one, at_s)[1] > LOST_S
        return one.is_left(is_silent=is_silent)

    async def _take_over(self, name: str, at_s: float) -> None:
        one, now_us = await self._sources.records.find(name), self._clock.now_us()
        if one is None or not self._is_left(one, at_s):
            return
        if (order := one.order) is None or order.interruptions >= INTERRUPTIONS_MAX:
            failure = INTERRUPTED if order is None else KILLED
            failed = replace(one.view, state=BacktestState.FAILED, failure=failure)
            await self._sources.records.update(failed, now_us=now_us, known_us=(one.saved_us,))
            return
        was_killed = one.saved_us > 0 and one.view.state is BacktestState.RUNNING  # a waiting one cannot be the reason
        view = requeued(one.view)
        order = replace(order, interruptions=order.interruptions + was_killed)
        if await self._sources.records.take(view, order, now_us=now_us, known_us=one.saved_us):
            log.info("%s is run again: its server was stopped", name)
            self._start(view, order, saved_us=now_us)

    def _start(self, view: BacktestView, order: BacktestOrder, *, saved_us: int) -> None:
        self._views[view.id] = view
        self._known_us[view.id] = frozenset({saved_us})
        self._tasks[view.id] = asyncio.create_task(self._run(view.id, order), name=f"backtest {view.id}")

    def _forget(self, name: str) -> None:
        del self._views[name], self._tasks[name], self._known_us[name]

    def _writing(self, name: str, now_us: int) -> frozenset[int]:
        """When its row may have been saved last by this server, after a write at this time."""
        self._known_us[name] |= {now_us}
        return self._known_us[name]

    def _now(self, stored: StoredBacktest) -> BacktestView:
        """The backtest, which this server does not run. One that is left waits to be taken over."""
        return requeued(stored.view) if self._is_left(stored, self._clock.monotonic()) else stored.view

    def _note(self, name: str, **changes: Any) -> None:
        if name in self._tasks:
            self._views[name] = replace(self._views[name], **changes)

    async def _save(self, view: BacktestView, *, now_us: int) -> bool:
        """Save one that has ended, unless another server has ended it or taken it over; False = the database is away.
        A result that changed the policy is saved in any case."""
        name = view.id
        known_us = frozenset[int]() if view.applied_version is not None else self._writing(name, now_us)
        try:
            if not await self._sources.records.save(view, now_us=now_us, known_us=known_us):
                log.info("the result of %s is not kept: another server has canceled it or taken it over", name)
        except StoreUnavailable as error:
            log.warning("the result of %s is not saved: %s", name, error.message)
            return False
        return True

    async def _leave(self, view: BacktestView) -> bool:
        try:
            await self._sources.records.update(requeued(view), now_us=0, known_us=self._known_us[view.id])
        except StoreUnavailable as error:
            log.warning("%s is run again later than it could be: %s", view.id, error.message)
            return False
        return True

    async def _run(self, name: str, order: BacktestOrder) -> None:
        updates = asyncio.create_task(self._save_progress(name), name=f"progress of {name}")
        try:
            async with self._turn:
                updates.cancel()
                self._note(name, state=BacktestState.RUNNING)
                # saves it at once: a server that is killed soon may be killed by it
                updates = asyncio.create_task(self._save_progress(name), name=f"progress of {name}")
                await self._run_now(name, order)
        except Exception as error:
            self._note(name, state=BacktestState.FAILED, failure=f"it could not be run: {error}")
            log.exception("backtest %s failed", name)
        finally:
            updates.cancel()
        ended_us = self._clock.now_us()
        while name in self._tasks:
            if await self._save(self._views[name], now_us=ended_us):
                self._forget(name)
            else:
                await asyncio.sleep(SAVE_S)

    async def _save_progress(self, name: str) -> None:
        """Save the progress until the end, and stop the backtest if another server has canceled it or taken it over."""
        unsure_us: int | None = None
        """Of a write that was not confirmed. It is repeated as it was, so that the times to look for stay few."""
        while name in self._tasks:
            now_us = self._clock.now_us() if unsure_us is None else unsure_us
            known_us = self._writing(name, now_us)
            try:
                if not await self._sources.records.update(self._views[name], now_us=now_us, known_us=known_us):
                    break
            except StoreUnavailable:
                unsure_us = now_us
            else:
                if name in self._known_us:
                    self._known_us[name] = frozenset({now_us})
                if unsure_us is not None:  # saved again with the present time: other servers look for old ones
                    unsure_us = None
                    continue
            await asyncio.sleep(SAVE_S)
        if self._applying != name and name in self._tasks:
            task = self._tasks[name]
            self._forget(name)
            task.cancel()

    async def _run_now(self, name: str, order: BacktestOrder) -> None:
        last: BacktestNews | None = None
        async with aclosing(self._sources.runner.run(order)) as messages:  # type: ignore[type-var]  # an async generator
            async for last in messages:
                if last.progress is not None:
                    self._note(name, progress=last.progress)
        result = None if last is None else last.report or last.tuning
        if last is None or result is None:
            said = None if last is None else last.failure
            failure = said or "the process of the backtest ended early; it may have used an hour of processor time"
            self._note(name, state=BacktestState.FAILED, failure=failure)
            return
        if (tuning := last.tuning) is not None and self._views[name].applies_itself and tuning.is_better:
            tuning = await self._apply_itself(name, tuning)
        span = {"since": moment(result.since_us), "until": moment(result.until_us)}  # the record may begin later
        self._note(name, report=last.report, tuning=tuning, **span, state=BacktestState.COMPLETED, progress=1.0)

    async def _apply_itself(self, name: str, tuning: TuningReport) -> TuningReport:
        """Apply a better policy on trial, waiting for a database that is away; if the policy has changed meanwhile,
        the proposal stays one, and says so."""
        self._applying = name
        while True:
            try:
                version = await self._journal.transact(
                    lambda draft: apply_on_trial(draft, name, tuning, now_us=self._clock.now_us()), actor=BY_TUNING
                )
            except StoreUnavailable as error:
                log.warning("the proposal of %s cannot be applied yet: %s", name, error.message)
                await self._clock.sleep(SAVE_S)
                continue
            except (VersionConflict, Unavailable) as error:
                log.warning("the proposal of %s was not applied: %s", name, error.message)
                return replace(tuning, notes=(*tuning.notes, f"the proposal was not applied: {error.message}"))
            self._note(name, applied_version=version)
            return tuning
