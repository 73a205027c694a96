"""Kept backtests: a result outlives its server, and a backtest that its server left unfinished is run again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from aliquot.service.backtests import runs
from aliquot.service.backtests.jobs import Backtests
from aliquot.service.backtests.ports import (
    INTERRUPTED,
    INTERRUPTIONS_MAX,
    KILLED,
    LOST_S,
    BacktestNews,
    BacktestOrder,
    StoredBacktest,
)
from aliquot.service.ports import StoreUnavailable
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller, NewBacktest, NewBacktestRun, NewTuning, Role
from aliquot_schema.views.backtests import BacktestReport, BacktestState, BacktestView, TuningChange, TuningReport
from backtest_records import MemoryBacktests, sources
from service_bench import agent
from service_stage import Stage, StepClock, stage

pytestmark = pytest.mark.anyio
OPERATOR = Caller(user=UserId("root"), request_id="req_1", role=Role.OPERATOR)
FCFS = NewBacktest(runs=(NewBacktestRun(label="first", policy={"order": "fcfs"}),))
REPORT = BacktestReport(
    since_us=0, until_us=1, sessions=1, reproduced=1, different_count=0, different=(), notes=(), rows=()
)


@dataclass
class FakeRunner:
    """Returns the given result once released."""

    last: BacktestNews = field(default_factory=lambda: BacktestNews(report=REPORT))
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    orders: list[BacktestOrder] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, order: BacktestOrder) -> AsyncIterator[BacktestNews]:
        self.orders.append(order)
        try:
            yield BacktestNews(progress=0.25)
            await self.may_end.wait()
            yield self.last
        finally:
            self.closed.set()


def server(
    on: Stage,
    records: MemoryBacktests,
    runner: FakeRunner | None = None,
    *,
    is_shared: bool = True,
    clock: StepClock | None = None,
) -> Backtests:
    """A server of the cluster whose database has these records."""
    found = sources(runner or FakeRunner(), records, is_shared=is_shared)
    return Backtests(state=on.state, journal=on.journal, clock=clock or on.clock, sources=found)


async def until_it_is(state: BacktestState, tests: Backtests, name: str) -> BacktestView:
    async with asyncio.timeout(60):
        while True:
            view = await tests.backtest(OPERATOR, name)
            assert view is not None
            if view.state is state:
                return view
            await asyncio.sleep(0)


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while True:
            if is_true():
                return
            await asyncio.sleep(0.001)


async def test_a_result_is_shown_after_a_restart() -> None:
    async with stage([agent("a", devices=4)]) as on:
        records, runner = MemoryBacktests(), FakeRunner()
        before = server(on, records, runner)
        begun = await before.start_backtest(OPERATOR, FCFS)
        runner.may_end.set()
        done = await until_it_is(BacktestState.COMPLETED, before, begun.id)
        await before.close()
        after = server(on, records)
        assert await after.backtest(OPERATOR, begun.id) == done
        assert done.report == REPORT
        assert [(view.id, view.report) for view in await after.backtests(OPERATOR)] == [(begun.id, None)]
        assert await after.cancel_backtest(OPERATOR, begun.id) == done


async def test_backtests_of_a_server_that_was_stopped_are_run_again_after_its_restart_in_their_order() -> None:
    async with stage([agent("a", devices=4)]) as on:
        records, runner = MemoryBacktests(), FakeRunner()
        before = server(on, records)
        names = [(await before.start_backtest(OPERATOR, FCFS)).id for _ in range(2)]
        await until_it_is(BacktestState.RUNNING, before, names[0])
        await before.close()
        after = server(on, records, runner)
        assert [(view.state, view.progress) for view in await after.backtests(OPERATOR)] == [
            (BacktestState.QUEUED, 0.0)
        ] * 2
        await after.resume()
        await until_it_is(BacktestState.RUNNING, after, names[0])
        await until_it_is(BacktestState.QUEUED, after, names[1])
        runner.may_end.set()
        assert [(await until_it_is(BacktestState.COMPLETED, after, name)).report for name in names] == [REPORT] * 2
        assert [order.runs[0].label for order in runner.orders] == ["first"] * 2
        assert [order.interruptions for order in runner.orders] == [0] * 2


async def test_a_tuning_whose_server_died_is_run_again_by_another_one_with_its_options() -> None:
    async with stage([agent("a", devices=4)]) as on:
        records, runner, died = MemoryBacktests(), FakeRunner(), FakeRunner()
        dead, after = server(on, records, died), server(on, records, runner)
        begun = await dead.start_tuning(OPERATOR, NewTuning(tries=7, seed=3))
        await until_it_is(BacktestState.RUNNING, after, begun.id)
        await after.resume()
        assert runner.orders == [], "its server may be alive"
        on.clock.advance(LOST_S + 1)
        assert (await after.backtests(OPERATOR))[0].state is BacktestState.QUEUED
        await after.resume()
        await until_it_is(BacktestState.RUNNING, after, begun.id)
        assert runner.orders == [replace(died.orders[0], interruptions=1)]
        assert runner.orders[0].tuning is not None
        assert (runner.orders[0].tuning.tries, runner.orders[0].tuning.seed) == (7, 3)
        await dead.close()
        await after.close()


async def test_a_backtest_that_only_waited_is_not_the_reason_why_its_server_was_killed() -> None:
    async with stage([agent("a", devices=4)]) as on:
        records = MemoryBacktests()
        dead, after = server(on, records), server(on, records)
        names = [(await dead.start_backtest(OPERATOR, FCFS)).id for _ in range(2)]
        await until(lambda: records.kept[names[0]].view.state is BacktestState.RUNNING)
        await after.resume()
        on.clock.advance(LOST_S + 1)
        await after.resume()
        orders = [records.kept[name].order for name in names]
        assert [order and order.interruptions for order in orders] == [1, 0]
        await dead.close()
        await after.close()


async def test_a_backtest_is_not_run_by_two_servers_when_both_were_without_the_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs, "SAVE_S", 0.01)
    async with stage([agent("a", devices=4)]) as on:
        records, runner = MemoryBacktests(), FakeRunner()
        records_2 = MemoryBacktests(kept=records.kept)
        first, second = server(on, records, runner), server(on, records_2)
        begun = await first.start_backtest(OPERATOR, FCFS)
        await until_it_is(BacktestState.RUNNING, second, begun.id)
        records.is_away = records_2.is_away = True
        await until(lambda: records.refused > 0)
        with pytest.raises(StoreUnavailable):
            await second.resume()
        records_2.is_away = False
        await second.resume()
        on.clock.advance(LOST_S + 1)
        await second.resume()
        await until_it_is(BacktestState.RUNNING, second, begun.id)
        assert not runner.closed.is_set()
        records.is_away = False
        async with asyncio.timeout(60):
            await runner.closed.wait()
        assert (await first.backtests(OPERATOR))[0].state is BacktestState.RUNNING
        await first.close()
        await second.close()


async def test_a_backtest_whose_server_is_alive_is_not_taken_over_when_the_database_is_back() -> None:
    async with stage([agent("a", devices=4)]) as on:
        records = MemoryBacktests()
        first, second = server(on, records), server(on, records)
        begun = await first.start_backtest(OPERATOR, FCFS)
        await second.resume()
        records.is_away = True
        on.clock.advance(LOST_S + 1)
        with pytest.raises(StoreUnavailable):
            await second.resume()
        records.is_away = False
        saved_us = records.kept[begun.id].saved_us
        for resumed in (second, server(on, records)):
            await resumed.resume()
            on.clock.advance(LOST_S / 2)
            await resumed.resume()
            assert records.kept[begun.id].saved_us == saved_us
        await first.close()


@pytest.mark.parametrize("ahead_s", [600, -600])
async def test_a_server_with_another_clock_takes_over_only_what_is_not_saved_any_more(
    monkeypatch: pytest.MonkeyPatch, ahead_s: int
) -> None:
    monkeypatch.setattr(runs, "SAVE_S", 0.01)
    async with stage([agent("a", devices=4)]) as on:
        records, runner, clock = MemoryBacktests(), FakeRunner(), StepClock()
        clock.correct(on.clock.now_us() + 1_000_000_000)
        on.clock.correct(clock.now_us() - ahead_s * 1_000_000)
        alive, other = server(on, records), server(on, records, runner, clock=clock)
        begun = await alive.start_backtest(OPERATOR, FCFS)
        await until_it_is(BacktestState.RUNNING, other, begun.id)
        for _ in range(3):
            await other.resume()
            assert (await other.backtests(OPERATOR))[0].state is BacktestState.RUNNING
            saved_us = records.kept[begun.id].saved_us
            await until(lambda saved_us=saved_us: records.kept[begun.id].saved_us != saved_us)  # type: ignore[misc]
            clock.advance(LOST_S + 1)
        assert runner.orders == []
        monkeypatch.setattr(runs, "SAVE_S", 1000)
        saved_us = records.kept[begun.id].saved_us
        await until(lambda: records.kept[begun.id].saved_us != saved_us)
        await other.resume()
        clock.advance(LOST_S + 1)
        await other.resume()
        await until_it_is(BacktestState.RUNNING, other, begun.id)
        assert len(runner.orders) == 1
        await alive.close()
        await other.close()


@pytest.mark.parametrize(("interruptions", "said"), [(INTERRUPTIONS_MAX, KILLED), (None, INTERRUPTED)])
async def test_a_backtest_that_cannot_be_run_again_has_failed_with_the_reason(
    interruptions: int | None, said: str
) -> None:
    async with stage([agent("a", devices=4)]) as on:
        records, dead = MemoryBacktests(), server(on, MemoryBacktests())
        begun = await dead.start_backtest(OPERATOR, FCFS)
        order = None if interruptions is None else BacktestOrder(since_us=0, until_us=1, interruptions=interruptions)
        records.kept[begun.id] = StoredBacktest(view=begun, saved_us=on.clock.now_us(), order=order)
        alone = server(on, records, is_shared=False)
        await alone.resume()
        assert (await until_it_is(BacktestState.FAILED, alone, begun.id)).failure == said
        await dead.close()


async def test_another_server_shows_the_progress_and_cancels_the_backtest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "SAVE_S", 0.01)
    async with stage([agent("a", devices=4)]) as on:
        records = MemoryBacktests()
        first, other = server(on, records), server(on, records)
        begun = await first.start_backtest(OPERATOR, FCFS)
        assert (await until_it_is(BacktestState.RUNNING, other, begun.id)).progress in (0.0, 0.25)
        assert (await other.cancel_backtest(OPERATOR, begun.id)).state is BacktestState.CANCELED
        await until_it_is(BacktestState.CANCELED, first, begun.id)
        await first.close()
        assert records.kept[begun.id].view.state is BacktestState.CANCELED


async def test_a_result_is_saved_when_the_database_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "SAVE_S", 0.01)
    async with stage([agent("a", devices=4)]) as on:
        records, runner = MemoryBacktests(), FakeRunner()
        tests = server(on, records, runner)
        begun = await tests.start_backtest(OPERATOR, FCFS)
        records.is_away = True
        runner.may_end.set()
        done = await until_it_is(BacktestState.COMPLETED, tests, begun.id)
        assert records.kept[begun.id].view.state is not BacktestState.COMPLETED
        records.is_away = False
        await until(lambda: records.kept[begun.id].view == done)


async def test_a_damaged_row_does_not_keep_others_from_being_taken_over(caplog: pytest.LogCaptureFixture) -> None:
    async with stage([agent("a", devices=4)]) as on:
        records, runner = MemoryBacktests(), FakeRunner()
        before, after = server(on, records), server(on, records, runner)
        names = [(await before.start_backtest(OPERATOR, FCFS)).id for _ in range(2)]
        await before.close()
        records.damaged = {names[0]}
        for _ in range(2):
            await after.resume()
        await until_it_is(BacktestState.RUNNING, after, names[1])
        assert [line.getMessage() for line in caplog.records if line.exc_info] == [
            f"{names[0]} was left unfinished, and cannot be taken over"
        ]
        await after.close()


@pytest.mark.parametrize("is_shared", [False, True])
async def test_a_backtest_whose_start_was_answered_with_an_error_is_canceled(*, is_shared: bool) -> None:
    async with stage([agent("a", devices=4)]) as on:
        records, runner = MemoryBacktests(is_unconfirmed=True), FakeRunner()
        tests = server(on, records, runner, is_shared=is_shared)
        with pytest.raises(StoreUnavailable):
            await tests.start_backtest(OPERATOR, FCFS)
        records.is_unconfirmed = False
        again = await tests.start_backtest(OPERATOR, FCFS)
        await tests.resume()
        states = {name: one.view.state for name, one in records.kept.items() if name != again.id}
        assert list(states.values()) == [BacktestState.CANCELED]
        runner.may_end.set()
        await until_it_is(BacktestState.COMPLETED, tests, again.id)
        assert len(runner.orders) == 1
        await tests.close()


@pytest.mark.parametrize("is_closed", [False, True])
async def test_a_server_that_lost_a_backtest_leaves_it_to_the_one_that_runs_it(
    monkeypatch: pytest.MonkeyPatch, *, is_closed: bool
) -> None:
    async with stage([agent("a", devices=4)]) as on:
        records, runner, runner_2 = MemoryBacktests(), FakeRunner(BacktestNews(failure="no database")), FakeRunner()
        first, second = server(on, records, runner), server(on, MemoryBacktests(kept=records.kept), runner_2)
        begun = await first.start_backtest(OPERATOR, FCFS)
        await until_it_is(BacktestState.RUNNING, second, begun.id)
        await second.resume()
        records.is_away = True
        if not is_closed:
            monkeypatch.setattr(runs, "SAVE_S", 0.01)
            runner.may_end.set()
            await until_it_is(BacktestState.FAILED, first, begun.id)
        on.clock.advance(LOST_S + 1)
        await second.resume()
        await until(lambda: records.kept[begun.id].view.state is BacktestState.RUNNING and bool(runner_2.orders))
        records.is_away = False
        if is_closed:
            await first.close()
        await until_it_is(BacktestState.RUNNING, first, begun.id)
        assert records.kept[begun.id].saved_us > 0
        runner_2.may_end.set()
        assert (await until_it_is(BacktestState.COMPLETED, second, begun.id)).report == REPORT
        await until(lambda: records.kept[begun.id].view.report == REPORT)
        await first.close()


async def test_a_backtest_that_another_server_has_canceled_stays_canceled_when_it_ends() -> None:
    async with stage([agent("a", devices=4)]) as on:
        records, runner = MemoryBacktests(), FakeRunner()
        first, other = server(on, records, runner), server(on, records)
        begun = await first.start_backtest(OPERATOR, FCFS)
        await until_it_is(BacktestState.RUNNING, other, begun.id)
        assert (await other.cancel_backtest(OPERATOR, begun.id)).state is BacktestState.CANCELED
        runner.may_end.set()
        await until_it_is(BacktestState.CANCELED, first, begun.id)
        assert records.kept[begun.id].view.state is BacktestState.CANCELED


async def test_a_result_is_kept_after_writes_that_the_database_could_not_confirm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs, "SAVE_S", 0.01)
    async with stage([agent("a", devices=4)]) as on:
        records, runner = MemoryBacktests(), FakeRunner()
        tests = server(on, records, runner)
        begun = await tests.start_backtest(OPERATOR, FCFS)
        records.is_unconfirmed = True
        await until(lambda: records.refused > 20)
        assert records.times_max <= 3, "a statement has a limited number of values"
        runner.may_end.set()
        done = await until_it_is(BacktestState.COMPLETED, tests, begun.id)
        await until(lambda: records.kept[begun.id].view == done)
        records.is_unconfirmed = False
        await tests.close()
        assert await server(on, records).backtest(OPERATOR, begun.id) == done


async def test_the_proposal_of_a_tuning_is_applied_after_a_restart() -> None:
    async with stage([agent("a", devices=4)]) as on:
        change = TuningChange(field="age", name="weights.age", value=16, before="4", after="16")
        report = TuningReport(
            since_us=0,
            split_us=1,
            until_us=2,
            base_version=on.state.policy.version,
            tries=3,
            changes=(change,),
            is_better=True,
            verdict="Better.",
            searched=(),
            unseen=(),
            losers=(),
        )
        records, runner = MemoryBacktests(), FakeRunner(BacktestNews(tuning=report))
        runner.may_end.set()
        before = server(on, records, runner)
        begun = await before.start_tuning(OPERATOR, NewTuning())
        await until_it_is(BacktestState.COMPLETED, before, begun.id)
        await before.close()
        applied = await server(on, records).apply_tuning(OPERATOR, begun.id)
        assert applied.applied_version == on.state.policy.version == report.base_version + 1
        assert await server(on, records).backtest(OPERATOR, begun.id) == applied
