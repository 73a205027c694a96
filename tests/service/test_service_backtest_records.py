"""Kept backtests: a result outlives its server, and a backtest that its server left unfinished is shown as failed."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from aliquot.service.backtests import jobs
from aliquot.service.backtests.jobs import Backtests
from aliquot.service.backtests.ports import INTERRUPTED, LOST_US, BacktestNews, BacktestOrder
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller, NewBacktest, NewBacktestRun, NewTuning, Role
from aliquot_schema.views.backtests import BacktestReport, BacktestState, BacktestView, TuningChange, TuningReport
from backtest_records import MemoryBacktests, sources
from service_bench import agent
from service_stage import Stage, stage

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

    async def run(self, _: BacktestOrder) -> AsyncIterator[BacktestNews]:
        yield BacktestNews(progress=0.25)
        await self.may_end.wait()
        yield self.last


def server(
    on: Stage, records: MemoryBacktests, runner: FakeRunner | None = None, *, is_shared: bool = True
) -> Backtests:
    """A server of the cluster whose database has these records."""
    found = sources(runner or FakeRunner(), records, is_shared=is_shared)
    return Backtests(state=on.state, journal=on.journal, clock=on.clock, sources=found)


async def until_it_is(state: BacktestState, tests: Backtests, name: str) -> BacktestView:
    async with asyncio.timeout(60):
        while True:
            view = await tests.backtest(OPERATOR, name)
            assert view is not None
            if view.state is state:
                return view
            await asyncio.sleep(0)


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


async def test_backtests_of_a_server_that_was_stopped_are_shown_as_ended_with_the_reason() -> None:
    async with stage([agent("a", devices=4)]) as on:
        records = MemoryBacktests()
        before = server(on, records)
        names = [(await before.start_backtest(OPERATOR, FCFS)).id for _ in range(2)]
        await until_it_is(BacktestState.RUNNING, before, names[0])
        await before.close()
        found = await server(on, records).backtests(OPERATOR)
        assert [(view.id, view.state, view.failure) for view in found] == [
            (name, BacktestState.FAILED, INTERRUPTED) for name in reversed(names)
        ]


async def test_a_backtest_whose_server_died_is_shown_as_ended_with_the_reason() -> None:
    async with stage([agent("a", devices=4)]) as on:
        records, dead = MemoryBacktests(), server(on, MemoryBacktests())
        begun = await dead.start_backtest(OPERATOR, FCFS)
        await records.save(begun, now_us=on.clock.now_us())
        after = server(on, records)
        assert (await until_it_is(BacktestState.QUEUED, after, begun.id)).failure is None
        on.clock.advance(LOST_US / 1e6 + 1)
        assert (await until_it_is(BacktestState.FAILED, after, begun.id)).failure == INTERRUPTED
        assert (await after.cancel_backtest(OPERATOR, begun.id)).state is BacktestState.FAILED
        on.clock.advance(-LOST_US / 1e6)
        alone = server(on, records, is_shared=False)
        assert (await until_it_is(BacktestState.FAILED, alone, begun.id)).failure == INTERRUPTED
        await dead.close()


async def test_another_server_shows_the_progress_and_cancels_the_backtest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "SAVE_S", 0.01)
    async with stage([agent("a", devices=4)]) as on:
        records = MemoryBacktests()
        runs, other = server(on, records), server(on, records)
        begun = await runs.start_backtest(OPERATOR, FCFS)
        assert (await until_it_is(BacktestState.RUNNING, other, begun.id)).progress in (0.0, 0.25)
        assert (await other.cancel_backtest(OPERATOR, begun.id)).state is BacktestState.CANCELED
        await until_it_is(BacktestState.CANCELED, runs, begun.id)
        await runs.close()
        assert records.kept[begun.id].view.state is BacktestState.CANCELED


async def test_a_result_is_saved_when_the_database_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "SAVE_S", 0.01)
    async with stage([agent("a", devices=4)]) as on:
        records, runner = MemoryBacktests(), FakeRunner()
        tests = server(on, records, runner)
        begun = await tests.start_backtest(OPERATOR, FCFS)
        records.is_away = True
        runner.may_end.set()
        done = await until_it_is(BacktestState.COMPLETED, tests, begun.id)
        assert records.kept[begun.id].view.state is not BacktestState.COMPLETED
        records.is_away = False
        async with asyncio.timeout(60):
            while True:
                if records.kept[begun.id].view == done:
                    break
                await asyncio.sleep(0.01)


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
