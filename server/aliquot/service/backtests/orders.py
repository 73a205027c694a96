"""Backtest orders: checks what an operator asks for, and completes it with the present policy and agents."""

from datetime import datetime
from typing import Final

from aliquot.core.policy_changes import amended
from aliquot.core.validation.fields import count, label
from aliquot.service.backtests.ports import BacktestOrder, OrderedRun, TuningOrder
from aliquot.service.ports import Clock
from aliquot.service.quotas import quota_of
from aliquot.service.state.state import State
from aliquot.service.views.terms import microseconds, moment
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import AgentId, UserId
from aliquot_schema.quotas import Quota
from aliquot_schema.requests import NewBacktest, NewBacktestRun, NewTuning
from aliquot_schema.views.backtests import BASE_LABEL, BacktestState, BacktestView

RUNS_MAX: Final = 8
DAYS_MAX: Final = 365
AGENTS_MAX: Final = 64
QUOTAS_MAX: Final = 64
DAY_US: Final = 86_400_000_000
LATE_US_MAX: Final = 60_000_000  # `--since 365d` is counted back by the caller's clock, before the request arrives
TRIES_MAX: Final = 200
SEED_MAX: Final = 2**31 - 1


class BacktestOrders:
    """Makes orders. Each method raises `InvalidRequest` for a wrong value."""

    def __init__(self, *, state: State, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    def tuning(self, asked: NewTuning) -> BacktestOrder:
        """The order of a search for weights; also refused if the order of the policy has no weights."""
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

    def backtest(self, asked: NewBacktest) -> BacktestOrder:
        """The order of runs to compare."""
        since_us, until_us = self._span(asked.since, asked.until, usual_us=7 * DAY_US)
        if not 1 <= len(asked.runs) <= RUNS_MAX:
            raise InvalidRequest(f"runs: give 1 to {RUNS_MAX}, each with another policy or cluster", field="runs")
        runs = [self._ordered(run, number) for number, run in enumerate(asked.runs, start=1)]
        if len({BASE_LABEL, *(run.label for run in runs)}) <= len(runs):
            raise InvalidRequest(f"runs: two have the same label, or one is labelled {BASE_LABEL!r}", field="runs")
        return BacktestOrder(since_us=since_us, until_us=until_us, runs=tuple(runs))

    def _span(self, since: datetime | None, until: datetime | None, *, usual_us: int) -> tuple[int, int]:
        now_us = self._clock.now_us()
        until_us = now_us if until is None else microseconds(until)
        since_us = max(until_us - usual_us, 0) if since is None else microseconds(since)
        if not max(until_us - DAYS_MAX * DAY_US - LATE_US_MAX, 0) <= since_us < until_us <= now_us:
            text = f"since: give a time before until, at most {DAYS_MAX} days, none before 1970 or in the future"
            raise InvalidRequest(text, field="since")
        return since_us, until_us

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


def queued(
    order: BacktestOrder, name: str, *, by: UserId, now_us: int, labels: tuple[str, ...], applies_itself: bool = False
) -> BacktestView:
    """The view of a new backtest."""
    return BacktestView(
        id=name,
        state=BacktestState.QUEUED,
        progress=0.0,
        created_at=moment(now_us),
        created_by=by,
        since=moment(order.since_us),
        until=moment(order.until_us),
        labels=labels,
        failure=None,
        report=None,
        applies_itself=applies_itself,
    )
