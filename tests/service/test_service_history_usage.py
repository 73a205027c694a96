"""Large usage queries: their memory, and how many run concurrently."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from aliquot.service.history.grids import Curves, Grid, covering
from aliquot.service.history.history import USAGE_QUERIES_MAX, History
from aliquot.service.history.measures import DEVICE_MEASURES
from aliquot.service.history.ports import HeldAmount, HistoryUnavailable
from aliquot.service.history.usage import HOURS_ONLY, POINTS_PER_READ, UsageSums, add_utilization
from aliquot.service.views.terms import moment
from aliquot_schema.ids import AgentId, DeviceId, ProjectId, SessionId, SlotName, UserId
from aliquot_schema.views.statistics import UsageBy
from history_stores import DAY, HOUR, T0
from service_bench import agent
from service_stage import CALLER, stage

pytestmark = pytest.mark.anyio
MINUTE = 60_000_000


class Steady:
    """A store with a device always held and half used, at any given resolution."""

    def __init__(self, least_s: float) -> None:
        self._least_s = least_s
        self.asked: list[Grid] = []

    def least_step_s(self, since_us: int) -> float:
        return self._least_s

    async def gathered(self, kind: object, name: str, grid: Grid, **_: object) -> dict[str, Curves]:
        self.asked.append(grid)
        numbers = np.full((len(DEVICE_MEASURES), grid.points), 50.0)
        numbers[-1] = 1000.0  # held
        return {"d": Curves(mean=numbers, maximum=numbers)}


def held_all(grid: Grid) -> UsageSums:
    """One device, always held."""
    sums = UsageSums(grid, key=lambda one: one.owner, share=lambda _: 1.0)
    one = HeldAmount(
        owner=UserId("ann"),
        project=ProjectId("p"),
        agent_id=AgentId("a"),
        device_id=DeviceId("d"),
        slot=SlotName("cuda.device"),
        amount=1,
        from_us=grid.start_us,
        ended_us=grid.end_us,
    )
    sums.add([one])
    return sums


@pytest.mark.parametrize(
    ("step_us", "points", "least_s", "fine_us"),
    [
        (HOUR, 24, 2, 10_000_000),
        (HOUR, 720, 2, MINUTE),
        (61 * MINUTE, 600, 60, MINUTE),
        (61 * MINUTE, 600, 120, MINUTE),  # of an agent that measures once a minute
        (28 * DAY, 260, 3600, HOUR),
    ],
)
async def test_usage_over_a_long_time_is_read_in_consecutive_parts(
    step_us: int, points: int, least_s: float, fine_us: int
) -> None:
    grid = covering(T0, T0 + step_us * points, step_s=step_us // 1_000_000)
    sums, store = held_all(grid), Steady(least_s)
    assert await add_utilization(sums, store=store) is None  # type: ignore[arg-type]  # as much of it as is asked
    assert {part.step_us for part in store.asked} == {fine_us}
    assert max(part.points for part in store.asked) <= POINTS_PER_READ
    assert [part.end_us for part in store.asked[:-1]] == [part.start_us for part in store.asked[1:]]
    assert (store.asked[0].start_us, store.asked[-1].end_us) == (grid.start_us, grid.end_us)
    (series,) = sums.series()
    assert set(series.utilization) == {50.0}
    assert sum(series.gpu_hours) == pytest.approx((grid.end_us - grid.start_us) / HOUR)


async def test_steps_not_aligned_to_hours_get_no_utilization_from_hourly_data() -> None:
    """Twenty years in minutes exceed memory, and each hour would count in its first minute."""
    grid = covering(T0, T0 + 20 * 365 * DAY, step_s=28 * 86_400 + 60)
    sums, store = held_all(grid), Steady(3600)
    assert await add_utilization(sums, store=store) == HOURS_ONLY  # type: ignore[arg-type]  # as above
    assert store.asked == []
    (series,) = sums.series()
    assert sum(series.gpu_hours) > 0
    assert set(series.utilization) == {None}


class SlowBook:
    """A record whose read lasts as long as the test says."""

    def __init__(self) -> None:
        self.reading = 0
        self.most = 0
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def between(self, since_us: int, until_us: int) -> AsyncIterator[tuple[HeldAmount, ...]]:
        self.reading += 1
        self.most = max(self.most, self.reading)
        self.begun.set()
        await self.may_end.wait()
        self.reading -= 1
        yield ()

    async def whole_since_us(self) -> int:
        return 0

    async def of_session(self, session_id: SessionId, until_us: int) -> tuple[HeldAmount, ...]:
        return ()

    async def spans_of_session(self, session_id: SessionId, until_us: int) -> tuple[tuple[int, int], ...]:
        return ()


async def test_one_usage_query_runs_at_a_time_and_the_number_waiting_is_limited() -> None:
    async with stage([agent("a", devices=1)]) as on:
        book = SlowBook()
        history = History(state=on.state, queries=on.queries, clock=on.clock, book=book)
        until = moment(on.clock.now_us()) + timedelta(days=2)
        since = until - timedelta(days=1)
        asked: dict[str, Any] = {"by": UsageBy.USER, "since": since, "until": until, "step": None}
        questions = [asyncio.create_task(history.usage_history(CALLER, **asked)) for _ in range(USAGE_QUERIES_MAX)]
        await asyncio.wait_for(book.begun.wait(), 30)
        with pytest.raises(HistoryUnavailable, match="already running or waiting"):
            await history.usage_history(CALLER, **asked)
        questions.pop().cancel()
        book.may_end.set()
        answers = await asyncio.gather(*questions)
        assert (book.most, len(answers)) == (1, USAGE_QUERIES_MAX - 1)
        await history.usage_history(CALLER, **asked)
