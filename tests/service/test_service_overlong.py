"""A session that runs far longer than similar ones raises an alert for its owner, with both times."""

import pytest
from msgspec.structs import replace

from aliquot.core.prediction import Prediction
from aliquot_schema.ids import KernelId
from notices_pipeline import alert_pipeline
from service_bench import agent

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
