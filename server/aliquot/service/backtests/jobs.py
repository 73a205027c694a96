"""Backtest jobs: starts, queues, lists and cancels backtests. They run one at a time; results are kept in memory."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from aliquot.core.policy_changes import amended
from aliquot.core.validation.fields import count, label
from aliquot.service.access import check_role
from aliquot.service.backtests.policy_trial import BY_TUNING, begin_trial, with_outcome
from aliquot.service.backtests.ports import BacktestNews, BacktestOrder, BacktestRunner, OrderedRun, TuningOrder
from aliquot.service.operators import OperatorCommands, check_version
from aliquot.service.ports import Clock, Ids
from aliquot.service.quotas import quota_of
from aliquot.service.state.forecast_board import SWITCHED_OFF
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot.service.views.terms import microseconds, moment
from aliquot_schema.errors import InvalidRequest, NotFound, StateConflict, Unavailable, VersionConflict
from aliquot_schema.ids import AgentId
from aliquot_schema.orchestration import Action
from aliquot_schema.quotas import Quota
from aliquot_schema.requests import Caller, NewBacktest, NewBacktestRun, NewTuning, Role
from aliquot_schema.views.backtests import BASE_LABEL, BacktestState, BacktestView, TuneApply, TuningReport

WAITING_MAX: Final = 4
"""Backtests that wait for the running one."""
KEPT_MAX: Final = 20
"""Backtests in memory, the newest."""
RUNS_MAX: Final = 8
DAYS_MAX: Final = 365
AGENTS_MAX: Final = 64
QUOTAS_MAX: Final = 64
DAY_US: Final = 86_400_000_000
LATE_US_MAX: Final = 60_000_000  # `--since 365d` is counted back by the caller's clock, before the request arrives
TRIES_MAX: Final = 200
SEED_MAX: Final = 2**31 - 1
TUNING_LABEL: Final = "tuning of the weights"
log: Final = logging.getLogger("aliquot.policy")
OPEN: Final = (BacktestState.QUEUED, BacktestState.RUNNING)


class Backtests(OperatorCommands):
    """Backtests of this server, for operators: they show the sessions of all users."""

    def __init__(
        self,
        *,
        state: State,
        journal: Journal,
        clock: Clock,
        ids: Ids | None = None,
        runner: BacktestRunner | None = None,
    ) -> None:
        """
        Args:
            runner: None = this server runs no backtests.
        """
        super().__init__(state=state, journal=journal, clock=clock)
        self._ids = ids
        self._runner = runner
        self._views: dict[str, BacktestView] = {}
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
        runner, name = self._free(caller)
        order = self._order(asked)
        labels = tuple(run.label for run in order.runs)
        action = Action(id="backtest_started", facts={"backtest": name, "labels": ", ".join(labels)})
        await self._act(caller, lambda draft: draft.put(action, "backtest_started"))
        return self._begin(caller, name, order, runner, labels=labels)

    async def start_tuning(self, caller: Caller, asked: NewTuning) -> BacktestView:
        """Start a tuning of the policy's weights, or queue it behind the running backtest.

        Raises:
            Forbidden, StateConflict, Unavailable: as for a backtest.
            InvalidRequest: a wrong value, the order has no weights, or `auto` without forecasts to watch.
        """
        runner, name = self._free(caller)
        order = self._tuning_order(asked)
        if asked.apply is TuneApply.AUTO and self._state.board.missing == SWITCHED_OFF:
            text = "apply: auto needs the forecasts, which this server's settings switch off; use manual"
            raise InvalidRequest(text, field="apply")
        action = Action(id="tuning_started", facts={"tuning": name, "apply": asked.apply})
        await self._act(caller, lambda draft: draft.put(action, "tuning_started"))
        is_auto = asked.apply is TuneApply.AUTO
        return self._begin(caller, name, order, runner, labels=(TUNING_LABEL,), applies_itself=is_auto)

    async def apply_tuning(self, caller: Caller, name: str) -> BacktestView:
        """Change the policy to the proposal of a tuning; no effect while the policy is the one that it made.

        Raises:
            Forbidden: the caller is no operator.
            NotFound: there is no such tuning.
            StateConflict: it has not completed, or it proposes nothing.
            VersionConflict: the policy has changed since the tuning began, or the proposal was taken back.
        """
        view = self._found(caller, name)
        if (tuning := view.tuning) is None:
            raise StateConflict(f"{name[:80]} is no tuning that has completed", id=name[:80], state=view.state)
        if not tuning.is_better:
            raise StateConflict(tuning.verdict, id=name[:80], state=view.state)
        if view.applied_version != self._state.policy.version:
            version = await self._act(caller, lambda draft: self._apply(draft, name, tuning))
            self._set(name, applied_version=version)
        return self._views[name]

    def _apply(self, draft: UnitOfWork, name: str, tuning: TuningReport, *, on_trial: bool = False) -> int:
        known, now_us = draft.policy(), self._clock.now_us()
        check_version("the policy", expected=tuning.base_version, actual=known.version, advice="tune again")
        weights = {change.field: change.value for change in tuning.changes}
        news = draft.put(replace(amended(known, {"weights": weights}), changed_us=now_us), "changed")
        words = ", ".join(f"{change.name}={change.after}" for change in tuning.changes)
        facts = {"tuning": name, "changes": words, "verdict": tuning.verdict, "version": str(news.version)}
        draft.put(Action(id="tuning_applied", facts=facts), "tuning_applied")
        if on_trial:
            begin_trial(draft, name, before=known.weights, version=news.version, now_us=now_us)
        return news.version

    async def _apply_itself(self, name: str, tuning: TuningReport) -> TuningReport:
        """Apply a better policy on trial; if the policy has changed meanwhile, the proposal stays one, and says so."""
        self._applying = name
        try:
            version = await self._journal.transact(
                lambda draft: self._apply(draft, name, tuning, on_trial=True), actor=BY_TUNING
            )
        except (VersionConflict, Unavailable) as error:
            log.warning("the proposal of %s was not applied: %s", name, error.message)
            return replace(tuning, notes=(*tuning.notes, f"the proposal was not applied: {error.message}"))
        self._set(name, applied_version=version)
        return tuning

    def _free(self, caller: Caller) -> tuple[BacktestRunner, str]:
        """The runner, and the name of a new job."""
        check_role(caller, Role.OPERATOR)
        if self._runner is None or self._ids is None:
            raise Unavailable("this server runs no backtests")
        if sum(view.state is BacktestState.QUEUED for view in self._views.values()) >= WAITING_MAX:
            text = f"{WAITING_MAX} backtests wait already; cancel one, or try again later"
            raise StateConflict(text, id="", state="queued")
        return self._runner, self._ids.new("bkt_")

    def _begin(
        self,
        caller: Caller,
        name: str,
        order: BacktestOrder,
        runner: BacktestRunner,
        *,
        labels: tuple[str, ...],
        applies_itself: bool = False,
    ) -> BacktestView:
        self._views[name] = BacktestView(
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
        self._drop_old()
        self._tasks[name] = asyncio.create_task(self._run(name, order, runner), name=f"backtest {name}")
        return self._views[name]

    async def cancel_backtest(self, caller: Caller, name: str) -> BacktestView:
        """Stop a backtest; no effect on one that has ended, or whose proposal is being applied.

        Raises:
            Forbidden: the caller is no operator.
            NotFound: there is no such backtest.
        """
        self._found(caller, name)
        action = Action(id="backtest_canceled", facts={"backtest": name})
        await self._act(caller, lambda draft: draft.put(action, "backtest_canceled"))
        if self._found(caller, name).state in OPEN and self._applying == name:
            await asyncio.wait([self._tasks[name]])  # a commit under way cannot be withdrawn
        elif self._found(caller, name).state in OPEN:
            self._tasks[name].cancel()
            self._set(name, state=BacktestState.CANCELED)
        return self._views[name]

    async def backtest(self, caller: Caller, name: str) -> BacktestView | None:
        """A backtest; None if there is none of this id, or no longer. Raises Forbidden to all but operators."""
        check_role(caller, Role.OPERATOR)
        view = self._views.get(name)
        return None if view is None else with_outcome(view, self._state)

    async def backtests(self, caller: Caller) -> Sequence[BacktestView]:
        """Kept backtests, newest first, without their reports. Raises Forbidden to all but operators."""
        check_role(caller, Role.OPERATOR)
        views = (with_outcome(view, self._state) for view in reversed(self._views.values()))
        return tuple(replace(view, report=None, tuning=None) for view in views)

    async def close(self) -> None:
        """Stop all backtests."""
        tasks = [task for task in self._tasks.values() if not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _span(self, since: datetime | None, until: datetime | None, *, usual_us: int) -> tuple[int, int]:
        now_us = self._clock.now_us()
        until_us = now_us if until is None else microseconds(until)
        since_us = max(until_us - usual_us, 0) if since is None else microseconds(since)
        if not max(until_us - DAYS_MAX * DAY_US - LATE_US_MAX, 0) <= since_us < until_us <= now_us:
            text = f"since: give a time before until, at most {DAYS_MAX} days, none before 1970 or in the future"
            raise InvalidRequest(text, field="since")
        return since_us, until_us

    def _tuning_order(self, asked: NewTuning) -> BacktestOrder:
        # The simulator is loaded by the first search for weights.
        from aliquot.core.simulation.tuning import check_order

        since_us, until_us = self._span(asked.since, asked.until, usual_us=28 * DAY_US)
        split_us = None if asked.split is None else microseconds(asked.split)
        if split_us is not None and not since_us < split_us < until_us:
            raise InvalidRequest("split: give a time between since and until", field="split")
        tries = count(asked.tries, field="tries", least=1, most=TRIES_MAX)
        seed = count(asked.seed, field="seed", least=0, most=SEED_MAX)
        document = self._state.policy
        check_order(document.order)
        tuning = TuningOrder(document=document, split_us=split_us, tries=tries, seed=seed)
        return BacktestOrder(since_us=since_us, until_us=until_us, tuning=tuning)

    def _order(self, asked: NewBacktest) -> BacktestOrder:
        since_us, until_us = self._span(asked.since, asked.until, usual_us=7 * DAY_US)
        if not 1 <= len(asked.runs) <= RUNS_MAX:
            raise InvalidRequest(f"runs: give 1 to {RUNS_MAX}, each with another policy or cluster", field="runs")
        runs = [self._ordered(run, number) for number, run in enumerate(asked.runs, start=1)]
        if len({BASE_LABEL, *(run.label for run in runs)}) <= len(runs):
            raise InvalidRequest(f"runs: two have the same label, or one is labelled {BASE_LABEL!r}", field="runs")
        return BacktestOrder(since_us=since_us, until_us=until_us, runs=tuple(runs))

    def _ordered(self, run: NewBacktestRun, number: int) -> OrderedRun:
        if run.policy is None and run.like is None and not run.without and not run.quotas:
            raise InvalidRequest("runs: give a policy, quotas, agents to add, or agents to leave out", field="runs")
        known = {agent.id for agent in self._state.agents.values()}
        unknown = [name for name in (*run.without, *([] if run.like is None else [run.like])) if name not in known]
        if unknown:
            raise InvalidRequest(f"there is no agent {unknown[0][:80]}; `aliquot agents list` lists them", field="runs")
        return OrderedRun(
            label=label(run.label, field="label") or f"run {number}",
            policy=None if run.policy is None else amended(self._state.policy, dict(run.policy)),
            like=None if run.like is None else AgentId(run.like),
            count=0 if run.like is None else count(run.count, field="count", least=1, most=AGENTS_MAX),
            without=tuple(AgentId(name) for name in run.without),
            quotas=self._quotas(run),
        )

    def _quotas(self, run: NewBacktestRun) -> tuple[Quota, ...]:
        if len(run.quotas) > QUOTAS_MAX:
            raise InvalidRequest(f"quotas: give at most {QUOTAS_MAX}", field="quotas")
        quotas = tuple(quota_of(asked, state=self._state) for asked in run.quotas)
        if len({quota.id for quota in quotas}) < len(quotas):
            raise InvalidRequest("quotas: two of them have the same subject", field="quotas")
        return quotas

    def _found(self, caller: Caller, name: str) -> BacktestView:
        check_role(caller, Role.OPERATOR)
        view = self._views.get(name)
        if view is None:
            text = f"there is no backtest {name[:80]}; a server keeps the last {KEPT_MAX} until it is restarted"
            raise NotFound(text, kind="backtest", id=name[:80])
        return view

    def _drop_old(self) -> None:
        ended = [name for name, view in self._views.items() if view.state not in OPEN]
        for name in ended[: max(len(self._views) - KEPT_MAX, 0)]:
            del self._views[name], self._tasks[name]

    def _set(self, name: str, **changes: Any) -> None:
        self._views[name] = replace(self._views[name], **changes)

    async def _run(self, name: str, order: BacktestOrder, runner: BacktestRunner) -> None:
        try:
            await self._run_in_turn(name, order, runner)
        except Exception as error:
            self._set(name, state=BacktestState.FAILED, failure=f"it could not be run: {error}")
            log.exception("backtest %s failed", name)

    async def _run_in_turn(self, name: str, order: BacktestOrder, runner: BacktestRunner) -> None:
        async with self._turn:
            self._set(name, state=BacktestState.RUNNING)
            last: BacktestNews | None = None
            async with aclosing(runner.run(order)) as messages:  # type: ignore[type-var]  # an async generator
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
