"""Backtest jobs: permissions, their maximum number, and their results."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from msgspec.structs import replace

from aliquot.app.backtests import read_part
from aliquot.service.backtests.jobs import WAITING_MAX, Backtests
from aliquot.service.backtests.ports import KEPT_MAX, BacktestNews, BacktestOrder, OrderedRun, TuningOrder
from aliquot.service.views.terms import moment
from aliquot_schema.errors import Forbidden, InvalidRequest, NotFound, StateConflict, Unavailable
from aliquot_schema.ids import UserId
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.quotas import QuotaScope
from aliquot_schema.requests import Caller, NewBacktest, NewBacktestRun, Role
from aliquot_schema.views.admin import NewQuota
from aliquot_schema.views.backtests import BacktestReport, BacktestState
from backtest_records import sources
from service_bench import agent
from service_stage import Stage, stage

pytestmark = pytest.mark.anyio
OPERATOR = Caller(user=UserId("root"), request_id="req_1", role=Role.OPERATOR)
USER = Caller(user=UserId("ann"), request_id="req_2", role=Role.USER)
REPORT = BacktestReport(
    since_us=0, until_us=1, sessions=1, reproduced=1, different_count=0, different=(), notes=(), rows=()
)
OF_ANN = NewQuota(scope=QuotaScope.USER, name="ann", max_slots=[("cuda", "2")])
FCFS = NewBacktest(runs=(NewBacktestRun(label="first", policy={"order": "fcfs"}),))


@dataclass
class FakeRunner:
    """Runs nothing: returns the given result once released."""

    last: BacktestNews = field(default_factory=lambda: BacktestNews(report=REPORT))
    orders: list[BacktestOrder] = field(default_factory=list)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: int = 0

    async def run(self, order: BacktestOrder) -> AsyncIterator[BacktestNews]:
        self.orders.append(order)
        yield BacktestNews(progress=0.25)
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        yield self.last


def jobs(on: Stage, runner: FakeRunner | None) -> Backtests:
    found = None if runner is None else sources(runner)
    return Backtests(state=on.state, journal=on.journal, clock=on.clock, sources=found)


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while True:
            if is_true():
                return
            await asyncio.sleep(0)


async def state_of(tests: Backtests, name: str) -> BacktestState:
    view = await tests.backtest(OPERATOR, name)
    assert view is not None
    return view.state


async def until_it_is(state: BacktestState, tests: Backtests, name: str) -> None:
    async with asyncio.timeout(60):
        while True:
            if await state_of(tests, name) is state:
                return
            await asyncio.sleep(0)


async def test_a_backtest_runs_and_keeps_its_result() -> None:
    async with stage([agent("a", devices=4)]) as on:
        runner = FakeRunner()
        tests = jobs(on, runner)
        begun = await tests.start_backtest(OPERATOR, FCFS)
        assert (begun.state, begun.report, begun.labels) == (BacktestState.QUEUED, None, ("first",))
        await until(lambda: len(runner.orders) == 1)
        ordered = runner.orders[0].runs[0].policy
        assert ordered is not None
        assert (ordered.order, ordered.backfill) == ("fcfs", on.state.policy.backfill)
        runner.may_end.set()
        await until_it_is(BacktestState.COMPLETED, tests, begun.id)
        found = await tests.backtest(OPERATOR, begun.id)
        assert found is not None
        assert (found.progress, found.report) == (1.0, REPORT)
        assert [view.report for view in await tests.backtests(OPERATOR)] == [None]
        assert [event.kind for event in await on.events()][-1] == "action.backtest_started"
        await tests.close()


async def test_a_result_is_of_the_time_that_the_record_covers() -> None:
    async with stage([agent("a", devices=4)]) as on:
        runner = FakeRunner()
        on.clock.advance(30 * 86_400)
        begins_us, ends_us = on.clock.now_us() - 60_000_000, on.clock.now_us() - 1_000_000
        runner.last = BacktestNews(report=replace(REPORT, since_us=begins_us, until_us=ends_us))
        tests = jobs(on, runner)
        begun = await tests.start_backtest(OPERATOR, FCFS)
        assert begun.until - begun.since == timedelta(days=7)
        runner.may_end.set()
        await until_it_is(BacktestState.COMPLETED, tests, begun.id)
        found = await tests.backtest(OPERATOR, begun.id)
        assert found is not None
        assert (found.since, found.until) == (moment(begins_us), moment(ends_us))
        await tests.close()


async def test_a_backtest_of_one_year_tolerates_the_delay_of_the_request() -> None:
    async with stage([agent("a", devices=4)]) as on:
        runner = FakeRunner()
        tests = jobs(on, runner)
        on.clock.advance(800 * 86_400)
        since = moment(on.clock.now_us()) - timedelta(days=365)
        on.clock.advance(1)
        await tests.start_backtest(OPERATOR, replace(FCFS, since=since))
        await until(lambda: len(runner.orders) == 1)
        with pytest.raises(InvalidRequest, match="at most 365 days"):
            await tests.start_backtest(OPERATOR, replace(FCFS, since=since - timedelta(days=1)))
        await tests.close()


async def test_a_run_may_have_other_quotas() -> None:
    async with stage([agent("a", devices=4)]) as on:
        runner = FakeRunner()
        tests = jobs(on, runner)
        await tests.start_backtest(OPERATOR, NewBacktest(runs=(NewBacktestRun(label="more", quotas=(OF_ANN,)),)))
        await until(lambda: len(runner.orders) == 1)
        [quota] = runner.orders[0].runs[0].quotas
        assert (quota.id, dict(quota.max_slots)) == ("user:ann", {"cuda.device": 2})
        assert on.state.quotas == {}
        await tests.close()


async def test_a_failed_backtest_shows_the_reason() -> None:
    async with stage([agent("a", devices=4)]) as on:
        runner = FakeRunner(last=BacktestNews(failure="nothing is recorded"))
        runner.may_end.set()
        tests = jobs(on, runner)
        begun = await tests.start_backtest(OPERATOR, FCFS)
        await until_it_is(BacktestState.FAILED, tests, begun.id)
        found = await tests.backtest(OPERATOR, begun.id)
        assert found is not None
        assert found.failure == "nothing is recorded"


async def test_a_backtest_that_cannot_be_started_fails_and_the_next_one_runs() -> None:
    class NoProcess(FakeRunner):
        async def run(self, order: BacktestOrder) -> AsyncIterator[BacktestNews]:
            if not self.orders:
                self.orders.append(order)
                raise OSError(12, "Cannot allocate memory")
            async for news in super().run(order):
                yield news

    async with stage([agent("a", devices=1)]) as on:
        runner = NoProcess()
        runner.may_end.set()
        tests = jobs(on, runner)
        first = await tests.start_backtest(OPERATOR, FCFS)
        await until_it_is(BacktestState.FAILED, tests, first.id)
        view = await tests.backtest(OPERATOR, first.id)
        assert view is not None
        assert "Cannot allocate memory" in (view.failure or "")
        second = await tests.start_backtest(OPERATOR, FCFS)
        await until_it_is(BacktestState.COMPLETED, tests, second.id)


async def test_one_backtest_runs_at_a_time_and_the_number_waiting_is_limited() -> None:
    async with stage([agent("a", devices=4)]) as on:
        runner = FakeRunner()
        tests = jobs(on, runner)
        first = await tests.start_backtest(OPERATOR, FCFS)
        await until(lambda: len(runner.orders) == 1)
        waiting = [await tests.start_backtest(OPERATOR, FCFS) for _ in range(WAITING_MAX)]
        with pytest.raises(StateConflict):
            await tests.start_backtest(OPERATOR, FCFS)
        assert len(runner.orders) == 1
        assert (await tests.cancel_backtest(OPERATOR, first.id)).state is BacktestState.CANCELED
        await until(lambda: len(runner.orders) == 2)
        assert runner.stopped == 1
        assert await state_of(tests, waiting[0].id) is BacktestState.RUNNING
        await tests.close()
        assert runner.stopped == 2


async def test_old_results_are_dropped() -> None:
    async with stage([agent("a", devices=4)]) as on:
        runner = FakeRunner()
        runner.may_end.set()
        tests = jobs(on, runner)
        names = []
        for _ in range(KEPT_MAX + 3):
            names.append((await tests.start_backtest(OPERATOR, FCFS)).id)
            await until_it_is(BacktestState.COMPLETED, tests, names[-1])
        assert [view.id for view in await tests.backtests(OPERATOR)] == names[: -KEPT_MAX - 1 : -1]
        with pytest.raises(NotFound):
            await tests.cancel_backtest(OPERATOR, names[0])


async def test_only_operators_may_use_backtests() -> None:
    async with stage([agent("a", devices=4)]) as on:
        tests = jobs(on, FakeRunner())
        for asking in (
            tests.start_backtest(USER, FCFS),
            tests.cancel_backtest(USER, "bkt_1"),
            tests.backtest(USER, "bkt_1"),
            tests.backtests(USER),
        ):
            with pytest.raises(Forbidden):
                await asking


@pytest.mark.parametrize(
    "runs",
    [
        (),
        (NewBacktestRun(),),
        (NewBacktestRun(without=("nowhere",)),),
        (NewBacktestRun(like="nowhere"),),
        (NewBacktestRun(policy={"order": "alphabetical"}),),
        (NewBacktestRun(label="x", policy={}), NewBacktestRun(label="x", policy={})),
        (NewBacktestRun(label="as it was decided", policy={}),),
        (NewBacktestRun(like="a", count=0),),
        (NewBacktestRun(quotas=(NewQuota(scope=QuotaScope.USER),)),),
        (NewBacktestRun(quotas=(OF_ANN, OF_ANN)),),
        (NewBacktestRun(quotas=(OF_ANN,) * 65),),
    ],
)
async def test_invalid_backtest_runs_are_refused(runs: tuple[NewBacktestRun, ...]) -> None:
    async with stage([agent("a", devices=4)]) as on:
        with pytest.raises(InvalidRequest):
            await jobs(on, FakeRunner()).start_backtest(OPERATOR, NewBacktest(runs=runs))


async def test_a_server_without_a_runner_refuses_backtests() -> None:
    async with stage([agent("a", devices=4)]) as on:
        with pytest.raises(Unavailable):
            await jobs(on, None).start_backtest(OPERATOR, FCFS)


def test_reading_the_record_is_as_much_of_the_progress_as_two_runs() -> None:
    runs = tuple(OrderedRun(label=f"run {number}") for number in range(7))
    tuning = TuningOrder(document=PolicyDocument(), split_us=None, tries=15, seed=0)
    assert read_part(BacktestOrder(since_us=0, until_us=1, runs=runs[:1])) == 0.5
    assert read_part(BacktestOrder(since_us=0, until_us=1, runs=runs)) == 0.2
    assert read_part(BacktestOrder(since_us=0, until_us=1, tuning=tuning)) == 0.1
