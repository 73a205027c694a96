"""Forecasts of sessions that are not submitted: by the forecast process, one session at a time."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from aliquot.core.foresight.forecast import HypotheticalSession
from aliquot.core.foresight.run_times import EndedRun
from aliquot.core.model.policy import Policy
from aliquot.core.prediction import Workload
from aliquot.core.workloads import workload_of
from aliquot.service.foresight.process import Forecaster
from aliquot.service.foresight.process_messages import (
    Ended,
    ForecastRequest,
    HypotheticalForecastsMade,
    LearningBatch,
    SnapshotDifference,
)
from aliquot.service.state.forecast_board import ASKED_BY_ONE_MAX, ASKED_MAX
from aliquot.service.state.rows import pending_row
from aliquot.service.state.snapshots import take
from aliquot_schema.errors import AliquotError, LimitExceeded, Unavailable
from aliquot_schema.ids import SessionId, UserId
from aliquot_schema.requests import NewSession
from aliquot_schema.views.forecasts import ForecastView
from service_bench import agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio


def asks(devices: str) -> NewSession:
    return NewSession(argv=("true",), shell=None, slots=[("cuda.device", devices)], cluster_size=1)


HOUR_MS = 3_600_000
RUNS = 80


def taught(on: Stage) -> Forecaster:
    """A forecast process that saw one-hour sessions of the caller."""
    made = Forecaster()
    ended = []
    for number in range(RUNS):
        workload = Workload(user=CALLER.user, program=None, milli=1000, limit_ms=None)
        run = EndedRun(workload=workload, duration_ms=HOUR_MS)
        ended.append(Ended(session_id=SessionId(f"ses_{number}"), at_us=on.clock.now_us(), run=run))
    made.take(LearningBatch(learned=tuple(ended)))
    return made


@contextmanager
def answering(on: Stage) -> Iterator[None]:
    """Answer questions as the leader's loop does, in this process."""
    forecaster, difference = taught(on), SnapshotDifference()

    async def serve() -> None:
        while True:
            if (question := on.questions.take()) is not None:
                ask = ForecastRequest(
                    number=1,
                    snapshot=take(on.state),
                    policy=on.state.rules,
                    now_us=on.clock.now_us(),
                    wanted=None,
                    first_rows=None,
                    samples=8,
                    hypothetical=question.sessions,
                )
                for message in difference.messages(ask):
                    for answer in forecaster.take(message):
                        if isinstance(answer, HypotheticalForecastsMade):
                            question.answer.set_result(answer.forecasts)
            await asyncio.sleep(0)

    with on.questions.served():
        task = asyncio.create_task(serve())
        yield
        task.cancel()


def known(found: ForecastView | AliquotError) -> ForecastView:
    assert isinstance(found, ForecastView)
    return found


async def test_each_previewed_session_is_forecast_as_if_submitted_alone() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await on.submit()
        await on.advance()
        with answering(on):
            one, again, both, many = await on.previews.forecasts(CALLER, [asks("1"), asks("1"), asks("2"), asks("3")])
        # One GPU is free, and two one-GPU sessions do not conflict.
        for found in (known(one).now, known(again).now):
            assert found is not None
            assert found.starts_now
        waiting = known(both).now
        assert waiting is not None
        assert waiting.start is not None
        assert not waiting.starts_now
        assert 3000 <= (waiting.start.p50 - waiting.made_at).total_seconds() <= 3700
        assert isinstance(many, AliquotError)
        assert on.state.pending == {}


async def test_without_a_forecasting_leader_the_forecast_is_marked_missing() -> None:
    async with stage([agent("a", devices=1)]) as on:
        [found] = await on.previews.forecasts(CALLER, [asks("1")])
        assert known(found).now is None
        assert known(found).missing


async def test_forecast_requests_end_with_the_leader_term_and_are_limited_in_number() -> None:
    async with stage([agent("a", devices=1)]) as on:
        with on.questions.served():
            asked = [asyncio.create_task(on.questions.ask([])) for _ in range(ASKED_MAX)]
            await asyncio.sleep(0)
            with pytest.raises(Unavailable, match="many"):
                await on.questions.ask([])
            asked[0].cancel()
            await asyncio.sleep(0)
            assert len(on.questions) == ASKED_MAX - 1
        for one in asked[1:]:
            with pytest.raises(Unavailable, match="leading server"):
                await one
        with pytest.raises(LimitExceeded):
            await on.previews.forecasts(CALLER, [asks("1")] * 9)


async def test_a_session_too_far_back_in_the_queue_is_not_forecast() -> None:
    async with stage([agent("a", devices=1)]) as on:
        names = [await on.submit() for _ in range(4)]
        sessions = [on.state.sessions[name] for name in names]
        rows = [pending_row(session, workload=workload_of(session)) for session in sessions]
        forecaster, difference = taught(on), SnapshotDifference()
        snapshot = replace(take(on.state), queue=rows)
        last = replace(rows[-1], session_id=SessionId("ses_supposed"), queued_us=rows[-1].queued_us + 1)
        ask = ForecastRequest(
            number=1,
            snapshot=snapshot,
            policy=Policy.of(on.state.policy),
            now_us=on.clock.now_us(),
            wanted=None,
            first_rows=2,
            samples=2,
            hypothetical=(HypotheticalSession(row=last, run_times=None),),
        )
        answers = [answer for message in difference.messages(ask) for answer in forecaster.take(message)]
        assert isinstance(answers[0], HypotheticalForecastsMade)
        assert answers[0].forecasts == (None,)


async def test_a_newer_forecast_request_of_a_user_replaces_the_oldest() -> None:
    """A form asks again while it is edited; its older questions are dropped."""
    async with stage([agent("a", devices=1)]) as on:
        with on.questions.served():
            asked = [asyncio.create_task(on.questions.ask([], by=UserId("ann"))) for _ in range(ASKED_BY_ONE_MAX + 2)]
            other = asyncio.create_task(on.questions.ask([], by=UserId("bob")))
            await asyncio.sleep(0)
            for old in asked[:2]:
                with pytest.raises(Unavailable, match="newer forecasts"):
                    await old
            assert len(on.questions) == ASKED_BY_ONE_MAX + 1
            while (question := on.questions.take()) is not None:
                question.answer.set_result(())
            assert [await task for task in (*asked[2:], other)] == [()] * (ASKED_BY_ONE_MAX + 1)
