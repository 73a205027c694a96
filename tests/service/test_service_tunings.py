"""Tunings: how their proposals become the policy, and how a trial policy is kept or reverted."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from aliquot.core.foresight.accuracy import GroupAccuracy
from aliquot.core.foresight.scoring import AccuracyReport
from aliquot.core.simulation.recorded_history import RecordedHistory
from aliquot.core.simulation.tuning import TuningTask, tune
from aliquot.service.backtests.jobs import Backtests
from aliquot.service.backtests.policy_trial import BY_TUNING, LEFT_US, TRIAL_ID, TRIAL_US, PolicyTrial
from aliquot.service.backtests.ports import BacktestNews, BacktestOrder
from aliquot.service.ports import StoreUnavailable
from aliquot.service.state.forecast_board import SWITCHED_OFF
from aliquot.service.state.journal import Journal
from aliquot.service.views.terms import moment
from aliquot_schema.errors import InvalidRequest, StateConflict, VersionConflict
from aliquot_schema.ids import UserId
from aliquot_schema.policies import PolicyDocument, Weights
from aliquot_schema.requests import Caller, NewTuning, Role
from aliquot_schema.views.backtests import BacktestState, BacktestView, TuneApply, TuningChange, TuningReport
from backtest_records import sources
from service_bench import agent
from service_stage import Stage, stage

pytestmark = pytest.mark.anyio
OPERATOR = Caller(user=UserId("root"), request_id="req_1", role=Role.OPERATOR)
MANUAL = NewTuning()
YEAR_1 = datetime(1, 1, 1, tzinfo=UTC)
CHANGE = TuningChange(field="age", name="weights.age", value=16, before="4", after="16")


def proposal(version: int, **more: Any) -> TuningReport:
    fields: dict[str, Any] = {"changes": (CHANGE,), "is_better": True, "verdict": "Better."}
    return TuningReport(
        since_us=0,
        split_us=1,
        until_us=2,
        base_version=version,
        tries=3,
        searched=(),
        unseen=(),
        losers=(),
        **(fields | more),
    )


@dataclass
class FakeRunner:
    """Returns a given result."""

    news: BacktestNews
    orders: list[BacktestOrder] = field(default_factory=list)

    async def run(self, order: BacktestOrder) -> AsyncIterator[BacktestNews]:
        self.orders.append(order)
        yield self.news


async def tuned(on: Stage, report: TuningReport, asked: NewTuning = MANUAL) -> tuple[Backtests, BacktestView]:
    """A completed tuning."""
    runner = FakeRunner(BacktestNews(tuning=report))
    jobs = Backtests(state=on.state, journal=on.journal, clock=on.clock, sources=sources(runner))
    begun = await jobs.start_tuning(OPERATOR, asked)
    async with asyncio.timeout(60):
        while True:
            found = await jobs.backtest(OPERATOR, begun.id)
            assert found is not None
            if found.state is BacktestState.COMPLETED:
                break
            await asyncio.sleep(0)
    [order] = runner.orders
    assert order.tuning is not None
    assert order.tuning.split_us is None
    return jobs, found


async def test_a_proposal_is_applied_by_one_command_and_once() -> None:
    async with stage([agent("a", devices=4)]) as on:
        jobs, found = await tuned(on, proposal(on.state.policy.version))
        assert (found.applied_version, on.state.policy.weights.age) == (None, 4)
        applied = await jobs.apply_tuning(OPERATOR, found.id)
        assert applied.applied_version == on.state.policy.version
        assert on.state.policy.weights == replace(Weights(), age=16)
        assert (await jobs.apply_tuning(OPERATOR, found.id)).applied_version == applied.applied_version
        assert on.state.actions["tuning_applied"].facts["changes"] == "weights.age=16"
        assert TRIAL_ID not in on.state.actions


async def test_a_proposal_whose_weights_were_changed_back_is_not_said_to_be_applied() -> None:
    async with stage([agent("a", devices=4)]) as on:
        jobs, found = await tuned(on, proposal(on.state.policy.version))
        await jobs.apply_tuning(OPERATOR, found.id)
        before = replace(on.state.policy, weights=Weights())
        await on.journal.transact(lambda draft: draft.put(before, "changed"), actor=BY_TUNING)
        with pytest.raises(VersionConflict, match="; tune again"):
            await jobs.apply_tuning(OPERATOR, found.id)
        shown = await jobs.backtest(OPERATOR, found.id)
        assert shown is not None
        assert shown.superseded == f"the policy was changed since; it has version {on.state.policy.version} now"


async def test_a_proposal_that_is_no_better_or_of_an_older_policy_is_refused() -> None:
    async with stage([agent("a", devices=4)]) as on:
        jobs, found = await tuned(on, proposal(on.state.policy.version, is_better=False, verdict="Keep the policy."))
        with pytest.raises(StateConflict, match="Keep the policy"):
            await jobs.apply_tuning(OPERATOR, found.id)
        jobs, found = await tuned(on, proposal(on.state.policy.version + 7))
        with pytest.raises(VersionConflict, match="; tune again"):
            await jobs.apply_tuning(OPERATOR, found.id)
        assert on.state.policy.weights == Weights()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (NewTuning(tries=0), "tries"),
        (NewTuning(seed=-1), "seed"),
        (NewTuning(apply=TuneApply.AUTO), "needs the forecasts"),
    ],
)
async def test_invalid_tuning_requests_are_refused(asked: NewTuning, said: str) -> None:
    async with stage([agent("a", devices=4)]) as on:
        on.state.board.lack(SWITCHED_OFF)
        with pytest.raises(InvalidRequest, match=said):
            await tuned(on, proposal(0), asked)


async def test_an_order_without_weights_cannot_be_tuned() -> None:
    async with stage([agent("a", devices=4)]) as on:
        await on.journal.transact(lambda draft: draft.put(replace(draft.policy(), order="fcfs"), "changed"), actor="x")
        with pytest.raises(InvalidRequest, match="order fcfs has no weights"):
            await tuned(on, proposal(1))


def late(on: Stage, part: float, *, n: int = 60) -> None:
    """This many sessions forecast under the present policy started after their P90."""
    group = GroupAccuracy(
        group=f"policy: {on.state.policy.version}",
        n=n,
        days=3,
        inside=0.9 - part,
        inside_low=0.0,
        inside_high=1.0,
        below=0.1,
        above=part,
        within_1_min=0.0,
        within_10_min=0.0,
        within_factor_2=0.0,
        pinball_us=0,
        baseline_pinball_us=None,
    )
    on.state.board.accuracy = AccuracyReport(groups=(group,))


async def on_trial(on: Stage) -> PolicyTrial:
    on.state.board.missing = None
    _, found = await tuned(on, proposal(on.state.policy.version), NewTuning(apply=TuneApply.AUTO))
    assert found.applied_version == on.state.policy.version
    assert on.state.policy.weights.age == 16
    return PolicyTrial(state=on.state, journal=on.journal, clock=on.clock)


async def test_a_policy_on_trial_is_taken_back_when_waits_stay_above_the_band() -> None:
    async with stage([agent("a", devices=4)]) as on:
        trial = await on_trial(on)
        assert await trial.run_once() is None, "too few forecasts are known"
        late(on, 0.5, n=10)
        assert await trial.run_once() is None
        late(on, 0.5)
        assert await trial.run_once() == "policy_trial_left_band"
        on.clock.advance(LEFT_US / 2e6)
        assert await trial.run_once() is None
        restarted = PolicyTrial(state=on.state, journal=on.journal, clock=on.clock)
        on.clock.advance(LEFT_US / 1.9e6)
        assert await restarted.run_once() == "policy_trial_taken_back"
        assert on.state.policy.weights == Weights()
        assert "50 %" in on.state.actions[TRIAL_ID].facts["reason"]
        events = await on.events()
        assert [(event.kind, event.actor) for event in events if event.kind == "policy.changed"] == [
            ("policy.changed", BY_TUNING)
        ] * 2
        assert await restarted.run_once() is None


async def test_a_trial_that_cannot_be_examined_does_not_end_the_leadership(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looked = asyncio.Event()

    async def sleep(_: float) -> None:
        if caplog.text.count("could not be examined") > 1:
            looked.set()
        await asyncio.sleep(0)

    async with stage([agent("a", devices=4)]) as on:
        await on_trial(on)
        monkeypatch.setattr(on.clock, "sleep", sleep)
        trial = PolicyTrial(state=cast("Any", None), journal=on.journal, clock=on.clock)
        tasks = asyncio.create_task(trial.run()), asyncio.create_task(looked.wait())
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        assert not tasks[0].done()
        tasks[0].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_tuning_that_was_taken_back_says_why() -> None:
    async with stage([agent("a", devices=4)]) as on:
        on.state.board.missing = None
        jobs, found = await tuned(on, proposal(on.state.policy.version), NewTuning(apply=TuneApply.AUTO))
        assert (found.applied_version, found.superseded) == (on.state.policy.version, None)
        trial = PolicyTrial(state=on.state, journal=on.journal, clock=on.clock)
        late(on, 0.5)
        await trial.run_once()
        on.clock.advance(LEFT_US / 1e6)
        assert await trial.run_once() == "policy_trial_taken_back"
        [shown] = await jobs.backtests(OPERATOR)
        why = "it was taken back: 50 % of the sessions started after the P90 they were told, for 6 h"
        assert (shown.applied_version, shown.superseded) == (found.applied_version, why)


async def test_a_policy_on_trial_that_returns_into_the_band_is_kept() -> None:
    async with stage([agent("a", devices=4)]) as on:
        trial = await on_trial(on)
        late(on, 0.5)
        assert await trial.run_once() == "policy_trial_left_band"
        late(on, 0.12)
        assert await trial.run_once() == "policy_trial_in_band"
        on.clock.advance(TRIAL_US / 1e6)
        assert await trial.run_once() == "policy_trial_ended"
        assert on.state.policy.weights.age == 16
        assert on.state.actions[TRIAL_ID].facts["state"] == "kept"


async def test_a_proposal_that_is_not_applied_by_itself_says_why() -> None:
    async with stage([agent("a", devices=4)]) as on:
        on.state.board.missing = None
        report = proposal(on.state.policy.version + 1, notes=("one",))
        _, found = await tuned(on, report, NewTuning(apply=TuneApply.AUTO))
        version = on.state.policy.version
        text = f"the policy has version {version} by now, not {version + 1}; tune again"
        assert found.tuning is not None
        assert found.tuning.notes == ("one", f"the proposal was not applied: {text}")
        assert found.applied_version is None


async def test_a_trial_without_forecasts_is_not_called_inside_the_band() -> None:
    async with stage([agent("a", devices=4)]) as on:
        trial = await on_trial(on)
        late(on, 0.5)
        assert await trial.run_once() == "policy_trial_left_band"
        on.state.board.accuracy = AccuracyReport()
        assert await trial.run_once() is None, "a restarted server has no accuracy yet"
        assert "left_us" in on.state.actions[TRIAL_ID].facts
        on.clock.advance(TRIAL_US / 1e6)
        assert await trial.run_once() == "policy_trial_ended"
        facts = on.state.actions[TRIAL_ID].facts
        assert facts["state"] == "kept"
        assert facts["reason"] == "fewer than 50 forecasts of waits could be compared with the starts"


async def test_waits_that_are_outside_the_band_when_a_trial_ends_are_not_called_inside_it() -> None:
    async with stage([agent("a", devices=4)]) as on:
        trial = await on_trial(on)
        on.clock.advance((TRIAL_US - LEFT_US / 2) / 1e6)
        late(on, 0.5)
        assert await trial.run_once() == "policy_trial_left_band"
        on.clock.advance(LEFT_US / 2e6)
        assert await trial.run_once() == "policy_trial_ended"
        reason = on.state.actions[TRIAL_ID].facts["reason"]
        assert reason == "waits have been outside the forecasts' band for less than 6 h"


async def test_a_second_trial_is_refused_until_the_first_one_has_ended() -> None:
    async with stage([agent("a", devices=4)]) as on:
        await on_trial(on)
        auto, name = NewTuning(apply=TuneApply.AUTO), on.state.actions[TRIAL_ID].facts["tuning"]
        jobs = Backtests(
            state=on.state, journal=on.journal, clock=on.clock, sources=sources(FakeRunner(BacktestNews()))
        )
        with pytest.raises(StateConflict) as refused:
            await jobs.start_tuning(OPERATOR, auto)
        until = moment(int(on.state.actions[TRIAL_ID].facts["since_us"]) + TRIAL_US)
        expected = f"version 1 of the policy, from {name}, is on trial until {until:%Y-%m-%d %H:%M} UTC; tune without"
        assert refused.value.message.startswith(expected)
        assert (await jobs.start_tuning(OPERATOR, MANUAL)).id
        changed = replace(on.state.policy, backfill_depth=7)
        await on.journal.transact(lambda draft: draft.put(changed, "changed"), actor="x")
        assert (await jobs.start_tuning(OPERATOR, auto)).id
        await jobs.close()


async def test_a_policy_change_by_an_operator_ends_the_trial() -> None:
    async with stage([agent("a", devices=4)]) as on:
        trial = await on_trial(on)
        await on.journal.transact(
            lambda draft: draft.put(replace(draft.policy(), backfill_depth=7), "changed"), actor="x"
        )
        late(on, 0.9)
        assert await trial.run_once() == "policy_trial_ended"
        assert (on.state.policy.weights.age, on.state.policy.backfill_depth) == (16, 7)


async def test_a_tuning_that_is_canceled_while_its_proposal_is_committed_has_applied_it() -> None:
    async with stage([agent("a", devices=4)]) as on:
        on.state.board.missing = None
        commits, canceled, may_commit = asyncio.Event(), asyncio.Event(), asyncio.Event()

        class SlowJournal:
            async def transact(self, change: Any, *, actor: str, request_id: Any = None) -> Any:
                done = await on.journal.transact(change, actor=actor, request_id=request_id)
                if actor == BY_TUNING:
                    commits.set()
                    await may_commit.wait()
                elif commits.is_set():
                    canceled.set()
                return done

        runner = FakeRunner(BacktestNews(tuning=proposal(on.state.policy.version)))
        journal = cast("Journal", SlowJournal())
        jobs = Backtests(state=on.state, journal=journal, clock=on.clock, sources=sources(runner))
        begun = await jobs.start_tuning(OPERATOR, NewTuning(apply=TuneApply.AUTO))
        await commits.wait()
        canceling = asyncio.create_task(jobs.cancel_backtest(OPERATOR, begun.id))
        await canceled.wait()
        may_commit.set()
        found = await canceling
        assert (found.state, found.applied_version) == (BacktestState.COMPLETED, on.state.policy.version)
        assert on.state.actions[TRIAL_ID].facts["state"] == "on trial"


@pytest.mark.parametrize("is_written", [False, True])
async def test_a_proposal_is_applied_once_the_database_is_back(
    is_written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage([agent("a", devices=4)]) as on:
        on.state.board.missing = None
        transact, faults = on.journal.transact, [StoreUnavailable("the connection ended before the answer came")]

        async def fail_once(change: Any, *, actor: str, request_id: Any = None) -> Any:
            fails = actor == BY_TUNING and bool(faults)
            done = None if fails and not is_written else await transact(change, actor=actor, request_id=request_id)
            if fails:
                raise faults.pop()
            return done

        monkeypatch.setattr(on.journal, "transact", fail_once)
        _, found = await tuned(on, proposal(on.state.policy.version), NewTuning(apply=TuneApply.AUTO))
        assert found.tuning is not None
        assert (found.applied_version, found.tuning.notes) == (on.state.policy.version, ())
        assert on.state.policy.weights.age == 16
        assert on.state.actions[TRIAL_ID].facts["state"] == "on trial"


@pytest.mark.parametrize(
    ("first", "later", "way"),
    [
        (15, 15, "choose a longer time"),
        (60, 3, "keep a longer last part for the check (`split`, `--unseen` of `aliquot tune`)"),
        (3, 60, "keep a shorter last part for the check (`split`, `--unseen` of `aliquot tune`)"),
    ],
)
def test_a_part_with_too_few_sessions_is_refused_with_a_way_to_more(first: int, later: int, way: str) -> None:
    parts = [cast("RecordedHistory", SimpleNamespace(counted=range(count))) for count in (first, later)]
    with pytest.raises(InvalidRequest) as refused:
        tune(*parts, TuningTask(document=PolicyDocument(), tries=1))
    assert refused.value.message.endswith(f"20 are needed, so {way}")


@pytest.mark.parametrize(("since", "until"), [(None, YEAR_1), (YEAR_1, YEAR_1 + timedelta(days=1))])
async def test_a_span_before_1970_is_refused(since: datetime | None, until: datetime) -> None:
    async with stage([agent("a", devices=4)]) as on:
        runner = FakeRunner(BacktestNews())
        jobs = Backtests(state=on.state, journal=on.journal, clock=on.clock, sources=sources(runner))
        with pytest.raises(InvalidRequest, match="none before 1970"):
            await jobs.start_tuning(OPERATOR, NewTuning(since=since, until=until))
        assert "tuning_started" not in on.state.actions
