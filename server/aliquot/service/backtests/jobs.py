"""Backtest jobs: starts, queues, lists and cancels backtests. Each server runs one at a time.

The database has all of them, so that every server shows the results, also after a restart.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Any, Final

from msgspec.structs import replace

from aliquot.service.access import check_role
from aliquot.service.backtests.orders import BacktestOrders
from aliquot.service.backtests.policy_trial import BY_TUNING, apply_on_trial, apply_proposal, with_outcome
from aliquot.service.backtests.ports import (
    KEPT_MAX,
    OPEN,
    BacktestNews,
    BacktestOrder,
    BacktestSources,
    StoredBacktest,
    interrupted,
)
from aliquot.service.operators import OperatorCommands
from aliquot.service.ports import Clock, StoreUnavailable
from aliquot.service.state.forecast_board import SWITCHED_OFF
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.views.terms import moment
from aliquot_schema.errors import InvalidRequest, NotFound, StateConflict, Unavailable, VersionConflict
from aliquot_schema.orchestration import Action
from aliquot_schema.requests import Caller, NewBacktest, NewTuning, Role
from aliquot_schema.views.backtests import BacktestState, BacktestView, TuneApply, TuningReport

WAITING_MAX: Final = 4
"""Backtests that wait for the running one."""
SAVE_S: Final = 5.0
"""How often the progress of a backtest is saved."""
TUNING_LABEL: Final = "tuning of the weights"
log: Final = logging.getLogger("aliquot.policy")


class Backtests(OperatorCommands):
    """Backtests, for operators: they show the sessions of all users."""

    def __init__(self, *, state: State, journal: Journal, clock: Clock, sources: BacktestSources | None = None) -> None:
        """
        Args:
            sources: None = this server runs no backtests.
        """
        super().__init__(state=state, journal=journal, clock=clock)
        self._orders = BacktestOrders(state=state, clock=clock)
        self._sources = sources
        self._views: dict[str, BacktestView] = {}
        """Backtests of this server whose end is not saved yet."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()
        self._applying = ""  # the tuning whose proposal is being committed, or was last

    async def start_backtest(self, caller: Caller, asked: NewBacktest) -> BacktestView:
        """Start a backtest, or queue it behind the running one.

        Raises:
            Forbidden: the caller is no operator.
            InvalidRequest: nothing to compare, a wrong value, or an unknown agent.
            StateConflict: too many backtests wait.
            Unavailable: this server runs none.
        """
        sources, name = self._free(caller)
        order = self._orders.backtest(asked)
        labels = tuple(run.label for run in order.runs)
        action = Action(id="backtest_started", facts={"backtest": name, "labels": ", ".join(labels)})
        await self._act(caller, lambda draft: draft.put(action, "backtest_started"))
        return await self._begin(caller, name, order, sources, labels=labels)

    async def start_tuning(self, caller: Caller, asked: NewTuning) -> BacktestView:
        """Start a tuning of the policy's weights, or queue it behind the running backtest.

        Raises:
            Forbidden, StateConflict, Unavailable: as for a backtest.
            InvalidRequest: a wrong value, the order has no weights, or `auto` without forecasts to watch.
        """
        sources, name = self._free(caller)
        order = self._orders.tuning(asked)
        if asked.apply is TuneApply.AUTO and self._state.board.missing == SWITCHED_OFF:
            text = "apply: auto needs the forecasts, which this server's settings switch off; use manual"
            raise InvalidRequest(text, field="apply")
        action = Action(id="tuning_started", facts={"tuning": name, "apply": asked.apply})
        await self._act(caller, lambda draft: draft.put(action, "tuning_started"))
        is_auto = asked.apply is TuneApply.AUTO
        return await self._begin(caller, name, order, sources, labels=(TUNING_LABEL,), applies_itself=is_auto)

    async def apply_tuning(self, caller: Caller, name: str) -> BacktestView:
        """Change the policy to the proposal of a tuning; no effect while the policy is the one that it made.

        Raises:
            Forbidden: the caller is no operator.
            NotFound: there is no such tuning.
            StateConflict: it has not completed, or it proposes nothing.
            VersionConflict: the policy has changed since the tuning began, or the proposal was taken back.
        """
        view = await self._found(caller, name)
        if (tuning := view.tuning) is None:
            raise StateConflict(f"{name[:80]} is no tuning that has completed", id=name[:80], state=view.state)
        if not tuning.is_better:
            raise StateConflict(tuning.verdict, id=name[:80], state=view.state)
        if view.applied_version != self._state.policy.version:
            now_us = self._clock.now_us()
            version = await self._act(caller, lambda draft: apply_proposal(draft, name, tuning, now_us=now_us))
            view = replace(view, applied_version=version)
            self._set(name, applied_version=version)
            await self._save(view)
        return view

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
            self._set(name, applied_version=version)
            return tuning

    def _free(self, caller: Caller) -> tuple[BacktestSources, str]:
        """What runs a new job, and its name."""
        check_role(caller, Role.OPERATOR)
        if self._sources is None:
            raise Unavailable("this server runs no backtests")
        if sum(view.state is BacktestState.QUEUED for view in self._views.values()) >= WAITING_MAX:
            text = f"{WAITING_MAX} backtests wait already; cancel one, or try again later"
            raise StateConflict(text, id="", state="queued")
        return self._sources, self._sources.ids.new("bkt_")

    async def _begin(
        self,
        caller: Caller,
        name: str,
        order: BacktestOrder,
        sources: BacktestSources,
        *,
        labels: tuple[str, ...],
        applies_itself: bool = False,
    ) -> BacktestView:
        view = BacktestView(
            id=name,
            state=BacktestState.QUEUED,
            progress=0.0,
            created_at=moment(self._clock.now_us()),
            created_by=caller.user,
            since=moment(order.since_us),
            until=moment(order.until_us),
            labels=labels,
            failure=None,
            report=None,
            applies_itself=applies_itself,
        )
        self._views[name] = view
        try:
            await sources.records.save(view, now_us=self._clock.now_us())
        except BaseException:
            del self._views[name]
            raise
        self._tasks[name] = asyncio.create_task(self._run(name, order, sources), name=f"backtest {name}")
        return view

    async def cancel_backtest(self, caller: Caller, name: str) -> BacktestView:
        """Stop a backtest; no effect on one that has ended, or whose proposal is being applied.

        Raises:
            Forbidden: the caller is no operator.
            NotFound: there is no such backtest.
        """
        await self._found(caller, name)
        action = Action(id="backtest_canceled", facts={"backtest": name})
        await self._act(caller, lambda draft: draft.put(action, "backtest_canceled"))
        if self._applying == name and name in self._tasks:
            await asyncio.wait([self._tasks[name]])  # a commit under way cannot be withdrawn
        view = await self._found(caller, name)
        if view.state in OPEN:
            view = await self._cancel(replace(view, state=BacktestState.CANCELED))
        return with_outcome(view, self._state)

    async def backtest(self, caller: Caller, name: str) -> BacktestView | None:
        """A backtest; None if there is none of this id, or no longer. Raises Forbidden to all but operators."""
        check_role(caller, Role.OPERATOR)
        view = await self._known(name)
        return None if view is None else with_outcome(view, self._state)

    async def _known(self, name: str) -> BacktestView | None:
        if name in self._views or self._sources is None:
            return self._views.get(name)
        stored = await self._sources.records.find(name)
        return None if stored is None else self._now(stored)

    async def backtests(self, caller: Caller) -> Sequence[BacktestView]:
        """Kept backtests, newest first, without their reports. Raises Forbidden to all but operators."""
        check_role(caller, Role.OPERATOR)
        here = dict(self._views)
        stored = () if self._sources is None else await self._sources.records.newest()
        views = {one.view.id: self._now(one) for one in stored} | here | self._views  # some began or ended meanwhile
        newest = (with_outcome(views[name], self._state) for name in sorted(views, reverse=True))
        return tuple(replace(view, report=None, tuning=None) for view in newest)

    async def close(self) -> None:
        """Stop all backtests."""
        tasks, left = list(self._tasks.values()), list(self._views.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for view in left:
            if not await self._save(interrupted(view) if view.state in OPEN else view):
                break  # each try may take seconds

    async def _found(self, caller: Caller, name: str) -> BacktestView:
        check_role(caller, Role.OPERATOR)
        view = await self._known(name)
        if view is None:
            text = f"there is no backtest {name[:80]}; the newest {KEPT_MAX} are kept"
            raise NotFound(text, kind="backtest", id=name[:80])
        return view

    def _now(self, stored: StoredBacktest) -> BacktestView:
        assert self._sources is not None, "without them nothing is stored"
        return stored.as_of(self._clock.now_us(), is_shared=self._sources.is_shared)

    def _set(self, name: str, **changes: Any) -> None:
        if name in self._tasks:
            self._views[name] = replace(self._views[name], **changes)

    async def _cancel(self, canceled: BacktestView) -> BacktestView:
        """End a backtest. Another server that runs it stops it when it saves the progress."""
        assert self._sources is not None, "without them there are no backtests"
        name = canceled.id
        if name in self._tasks:
            self._tasks.pop(name).cancel()
            self._views[name] = canceled
        try:
            is_canceled = await self._sources.records.update(canceled, now_us=self._clock.now_us())
        finally:
            self._views.pop(name, None)
        stored = None if is_canceled else await self._sources.records.find(name)
        return canceled if stored is None else self._now(stored)  # it had just ended

    async def _save(self, view: BacktestView) -> bool:
        assert self._sources is not None, "without them there are no backtests"
        try:
            await self._sources.records.save(view, now_us=self._clock.now_us())
        except StoreUnavailable as error:
            log.warning("the result of %s is not saved: %s", view.id, error.message)
            return False
        return True

    async def _run(self, name: str, order: BacktestOrder, sources: BacktestSources) -> None:
        updates = asyncio.create_task(self._save_progress(name, sources), name=f"progress of {name}")
        try:
            await self._run_in_turn(name, order, sources)
        except Exception as error:
            self._set(name, state=BacktestState.FAILED, failure=f"it could not be run: {error}")
            log.exception("backtest %s failed", name)
        finally:
            updates.cancel()
        while name in self._tasks:
            if await self._save(self._views[name]):
                del self._views[name], self._tasks[name]
            else:
                await asyncio.sleep(SAVE_S)

    async def _save_progress(self, name: str, sources: BacktestSources) -> None:
        """Save the progress until the end, and stop the backtest if another server has canceled it."""
        while name in self._tasks:
            with suppress(StoreUnavailable):
                if not await sources.records.update(self._views[name], now_us=self._clock.now_us()):
                    break
            await asyncio.sleep(SAVE_S)
        if self._applying != name and name in self._tasks:
            del self._views[name]
            self._tasks.pop(name).cancel()

    async def _run_in_turn(self, name: str, order: BacktestOrder, sources: BacktestSources) -> None:
        async with self._turn:
            self._set(name, state=BacktestState.RUNNING)
            last: BacktestNews | None = None
            async with aclosing(sources.runner.run(order)) as messages:  # type: ignore[type-var]  # an async generator
                async for last in messages:
                    if last.progress is not None:
                        self._set(name, progress=last.progress)
            result = None if last is None else last.report or last.tuning
            if last is None or result is None:
                said = None if last is None else last.failure
                failure = said or "the process of the backtest ended early; it may have used an hour of processor time"
                self._set(name, state=BacktestState.FAILED, failure=failure)
                return
            if (tuning := last.tuning) is not None and self._views[name].applies_itself and tuning.is_better:
                tuning = await self._apply_itself(name, tuning)
            span = {"since": moment(result.since_us), "until": moment(result.until_us)}  # the record may begin later
            self._set(name, report=last.report, tuning=tuning, **span, state=BacktestState.COMPLETED, progress=1.0)
