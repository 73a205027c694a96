"""Backtest jobs: starts, queues, lists and cancels backtests. Each server runs one at a time.

The database has all of them, so that every server shows the results, also after a restart.
"""

import logging
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from aliquot.service.access import check_role
from aliquot.service.backtests.orders import BacktestOrders, queued
from aliquot.service.backtests.policy_trial import apply_proposal, check_no_trial, with_outcome
from aliquot.service.backtests.ports import KEPT_MAX, OPEN, BacktestSources
from aliquot.service.backtests.runs import BacktestRuns
from aliquot.service.operators import OperatorCommands
from aliquot.service.ports import Clock, StoreUnavailable
from aliquot.service.state.forecast_board import SWITCHED_OFF
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot_schema.errors import InvalidRequest, NotFound, StateConflict, Unavailable
from aliquot_schema.orchestration import Action
from aliquot_schema.requests import Caller, NewBacktest, NewTuning, Role
from aliquot_schema.views.backtests import BacktestState, BacktestView, TuneApply

WAITING_MAX: Final = 4
"""Backtests that wait for the running one."""
RESUME_S: Final = 10.0
"""How often a server looks for backtests that others left unfinished."""
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
        self._ids = None if sources is None else sources.ids
        self._runs: Final = None if sources is None else BacktestRuns(sources, journal=journal, clock=clock)

    async def start_backtest(self, caller: Caller, asked: NewBacktest) -> BacktestView:
        """Start a backtest, or queue it behind the running one.

        Raises:
            Forbidden: the caller is no operator.
            InvalidRequest: nothing to compare, a wrong value, or an unknown agent.
            StateConflict: too many backtests wait.
            Unavailable: this server runs none.
        """
        runs, name = self._free(caller)
        order = self._orders.backtest(asked)
        labels = tuple(run.label for run in order.runs)
        action = Action(id="backtest_started", facts={"backtest": name, "labels": ", ".join(labels)})
        await self._act(caller, lambda draft: draft.put(action, "backtest_started"))
        view = queued(order, name, by=caller.user, now_us=self._clock.now_us(), labels=labels)
        return await runs.begin(view, order)

    async def start_tuning(self, caller: Caller, asked: NewTuning) -> BacktestView:
        """Start a tuning of the policy's weights, or queue it behind the running backtest.

        Raises:
            Forbidden, StateConflict, Unavailable: as for a backtest; also `auto` while a policy is on trial.
            InvalidRequest: a wrong value, the order has no weights, or `auto` without forecasts to watch.
        """
        runs, name = self._free(caller)
        order = self._orders.tuning(asked)
        is_auto, now_us = asked.apply is TuneApply.AUTO, self._clock.now_us()
        if is_auto and self._state.board.missing == SWITCHED_OFF:
            text = "apply: auto needs the forecasts, which this server's settings switch off; use manual"
            raise InvalidRequest(text, field="apply")
        if is_auto:
            check_no_trial(self._state)
        action = Action(id="tuning_started", facts={"tuning": name, "apply": asked.apply})
        await self._act(caller, lambda draft: draft.put(action, "tuning_started"))
        labels = (TUNING_LABEL,)
        view = queued(order, name, by=caller.user, now_us=now_us, labels=labels, applies_itself=is_auto)
        return await runs.begin(view, order)

    async def apply_tuning(self, caller: Caller, name: str) -> BacktestView:
        """Change the policy to the proposal of a tuning; no effect while the policy is the one that it made.

        Raises:
            Forbidden: the caller is no operator.
            NotFound: there is no such tuning.
            StateConflict: it has not completed, or it proposes nothing.
            VersionConflict: the policy has changed since the tuning began, or the proposal was taken back.
        """
        runs, view = await self._found(caller, name)
        if (tuning := view.tuning) is None:
            raise StateConflict(f"{name[:80]} is no tuning that has completed", id=name[:80], state=view.state)
        if not tuning.is_better:
            raise StateConflict(tuning.verdict, id=name[:80], state=view.state)
        if view.applied_version != self._state.policy.version:
            now_us = self._clock.now_us()
            version = await self._act(caller, lambda draft: apply_proposal(draft, name, tuning, now_us=now_us))
            view = replace(view, applied_version=version)
            await runs.amend(view)
        return view

    def _free(self, caller: Caller) -> tuple[BacktestRuns, str]:
        """What runs a new job, and its name."""
        check_role(caller, Role.OPERATOR)
        if self._runs is None or self._ids is None:
            raise Unavailable("this server runs no backtests")
        if self._runs.waiting >= WAITING_MAX:
            text = f"{WAITING_MAX} backtests wait already; cancel one, or try again later"
            raise StateConflict(text, id="", state="queued")
        return self._runs, self._ids.new("bkt_")

    async def cancel_backtest(self, caller: Caller, name: str) -> BacktestView:
        """Stop a backtest; no effect on one that has ended, or whose proposal is being applied.

        Raises:
            Forbidden: the caller is no operator.
            NotFound: there is no such backtest.
        """
        await self._found(caller, name)
        action = Action(id="backtest_canceled", facts={"backtest": name})
        await self._act(caller, lambda draft: draft.put(action, "backtest_canceled"))
        runs, view = await self._found(caller, name, is_settled=True)
        if view.state in OPEN:
            view = await runs.cancel(replace(view, state=BacktestState.CANCELED))
        return with_outcome(view, self._state)

    async def backtest(self, caller: Caller, name: str) -> BacktestView | None:
        """A backtest; None if there is none of this id, or no longer. Raises Forbidden to all but operators."""
        check_role(caller, Role.OPERATOR)
        view = None if self._runs is None else await self._runs.find(name)
        return None if view is None else with_outcome(view, self._state)

    async def backtests(self, caller: Caller) -> Sequence[BacktestView]:
        """Kept backtests, newest first, without their reports. Raises Forbidden to all but operators."""
        check_role(caller, Role.OPERATOR)
        newest = () if self._runs is None else await self._runs.newest()
        return tuple(replace(with_outcome(view, self._state), report=None, tuning=None) for view in newest)

    async def run(self) -> None:
        """Look for backtests that their servers left unfinished, and run them again, until canceled."""
        while True:
            try:
                await self.resume()
            except StoreUnavailable as error:
                log.debug("unfinished backtests cannot be read: %s", error.message)
            except Exception:
                log.exception("unfinished backtests could not be taken over")
            await self._clock.sleep(RESUME_S)

    async def resume(self) -> None:
        """Run again what other servers, or this one before its restart, left unfinished."""
        if self._runs is not None:
            await self._runs.resume()

    async def close(self) -> None:
        """Stop all backtests. Another server, or this one after its restart, runs them again."""
        if self._runs is not None:
            await self._runs.close()

    async def _found(self, caller: Caller, name: str, *, is_settled: bool = False) -> tuple[BacktestRuns, BacktestView]:
        check_role(caller, Role.OPERATOR)
        if self._runs is not None:
            if is_settled:
                await self._runs.until_applied(name)
            if (view := await self._runs.find(name)) is not None:
                return self._runs, view
        text = f"there is no backtest {name[:80]}; the newest {KEPT_MAX} are kept"
        raise NotFound(text, kind="backtest", id=name[:80])
