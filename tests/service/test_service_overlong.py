"""Run times of sessions: what is learned from them, and the alert for one that runs far longer than similar ones."""

import pytest
from msgspec.structs import replace

from aliquot.core.prediction import Prediction
from aliquot.core.workloads import ran_ms
from aliquot.service.foresight.learning import run_of
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.sessions import SavedWork
from aliquot_schema.states import SessionState
from notices_pipeline import alert_pipeline
from service_bench import agent
from store_records import session

pytestmark = pytest.mark.anyio

MINUTE_S = 60


def test_a_run_is_overlong_only_far_beyond_the_mean_of_enough_runs() -> None:
    known = Prediction(estimate_ms=600_000, median_ms=600_000, runs=5, user=None, likeness="", is_limited=False)
    assert not known.is_exceeded(10 * 600_000 + 3_600_000)
    assert known.is_exceeded(10 * 600_000 + 3_600_001)
    assert not replace(known, runs=4).is_exceeded(10**9)
    assert known.is_exceeded(2 * 600_000 + 3_600_001, pct=200)


async def test_the_overlong_alert_names_the_run_time_and_the_mean_of_similar_runs() -> None:
    async with alert_pipeline(agents=[agent("a", devices=1)]) as stage:
        on = stage.stage
        for _ in range(5):
            name = await on.submit()
            await on.advance()
            on.clock.advance(10 * MINUTE_S)
            on.executor.end_kernel(KernelId(f"{name}.1.0"), code=0)
            await on.settle()
        name = await on.submit()
        await on.advance()
        assert await stage.evaluate(159 * MINUTE_S) == (0, 0)
        assert await stage.evaluate(2 * MINUTE_S) == (1, 0)
        (alert,) = on.state.alert_index.alerts.values()
        assert (alert.rule, alert.subject, alert.owners) == ("session_overlong", name, ("ann",))
        assert alert.words.startswith(f"{name} of ann has run for 2 h; mean of ann's last 5 runs of true")
        on.executor.end_kernel(KernelId(f"{name}.1.0"), code=0)
        await on.settle()
        await stage.evaluate()
        assert await stage.evaluate(600) == (0, 1)


def test_the_run_time_of_a_resumed_session_includes_what_it_kept_of_earlier_attempts() -> None:
    """Forecasts and predictions learn the whole of it; what a requeue lost is not part of it."""
    work = SavedWork(kept_ms=5_000, saved_us=1, agent_id=AgentId("a"), attempt=2, began_ms=4_000)
    ended = session(attempt=2, state=SessionState.COMPLETED, started_us=10**6, ended_us=3 * 10**6)
    assert ran_ms(ended) == 2_000
    resumed = replace(ended, work=work)
    assert ran_ms(resumed) == 6_000
    learned = run_of(resumed)
    assert learned is not None
    assert learned.duration_ms == 6_000
