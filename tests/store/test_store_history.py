"""History on both databases: samples are found again, at every resolution, over crashes and years."""

import asyncio
import math

import pytest

from aliquot.service.history.grids import Grid, covering
from aliquot.service.history.measures import WHOLE, MeasureKind, index_of
from aliquot.store.timeseries.history_store import HistoryDatabase
from aliquot.store.timeseries.tiers import Tier, TierRetention
from history_stores import AGENT, DAY, HOUR, SECOND, T0, HistoryStage, fill, queue_sample, roster, sample
from store_places import Place

pytestmark = pytest.mark.anyio
MINUTE = 60 * SECOND
UTILIZATION = index_of(MeasureKind.DEVICES, "utilization")


@pytest.fixture
def history(place: Place) -> HistoryStage:
    found = HistoryStage(place)
    asyncio.run(_database(place))
    return found


async def _database(place: Place) -> None:
    """The durable database exists before its history."""
    database = place.database()
    await database.open()
    await database.close()


async def curve(store: HistoryDatabase, device: str, grid: Grid, *, top: bool = False) -> list[float | None]:
    """A device's utilization; None where it has none."""
    found = await store.gathered(MeasureKind.DEVICES, device.partition("-")[0], grid)
    if device not in found:
        return []
    numbers = (found[device].maximum if top else found[device].mean)[UTILIZATION]
    return [None if math.isnan(number) else float(number) for number in numbers]


async def test_history_that_is_not_yet_written_can_be_read(history: HistoryStage) -> None:
    async with history.store() as store:
        fill(store, roster(), load=lambda s: 10.0 if s < 10 else 50.0, first_us=T0, last_us=T0 + 20 * SECOND)
        assert await curve(store, "n561-0", covering(T0, T0 + 30 * SECOND, step_s=10)) == [10.0, 50.0, None]
        assert await curve(store, "n561-1", covering(T0, T0 + 30 * SECOND, step_s=10)) == [5.0, 25.0, None]


async def test_written_history_is_read_after_a_restart_and_by_another_server(history: HistoryStage) -> None:
    async with history.store() as store:
        fill(store, roster(), load=lambda _: 60.0, first_us=T0, last_us=T0 + 400 * SECOND)
        await store.flush()
    async with history.store() as first:
        grid = covering(T0, T0 + 600 * SECOND, step_s=300)
        assert await curve(first, "n561-0", grid) == [60.0, 60.0]
        if history.place.url:
            async with history.store() as second:
                assert await curve(second, "n561-0", grid) == [60.0, 60.0]


async def test_a_device_without_readings_has_no_values_and_other_devices_do(history: HistoryStage) -> None:
    async with history.store() as store:
        for number in range(10):
            store.take(sample(roster(), T0 + number * 2 * SECOND, None if number % 2 else 40.0))
        for number in range(10, 20):
            store.take(sample(roster(), T0 + number * 2 * SECOND, None))
        await store.flush()
        grid = covering(T0, T0 + 40 * SECOND, step_s=10)
        assert await curve(store, "n561-0", grid) == [40.0, 40.0, None, None]
        found = await store.gathered(MeasureKind.DEVICES, AGENT, grid, devices=frozenset({"n561-1"}))
        assert set(found) == {"n561-1"}
        assert list(found["n561-1"].mean[index_of(MeasureKind.DEVICES, "memory_used")]) == [2.0 * 2**30] * 4


async def test_hourly_and_daily_summaries_agree_with_the_raw_history(history: HistoryStage) -> None:
    hours = Grid(start_us=T0, step_us=HOUR, points=25)

    def load(second: int) -> float:
        return 100.0 if second % 3600 < 36 else (second // 3600)

    async with history.store() as store:
        of = roster(devices=1)
        for hour in range(25):  # ten minutes of each, so that the test is quick
            first_us = T0 + hour * HOUR
            fill(
                store,
                of,
                load=lambda s, hour=hour: load(s + hour * 3600),
                first_us=first_us,
                last_us=first_us + HOUR // 6,
            )
        history.clock.now = T0 + 25 * HOUR + 9 * MINUTE
        await store.flush()
        before, tops = await curve(store, "n561-0", hours), await curve(store, "n561-0", hours, top=True)
        tended = await store.maintain()
        assert (tended.written, tended.removed) == (24, 4)  # samples older than 24 hours
        after, still = await curve(store, "n561-0", hours), await curve(store, "n561-0", hours, top=True)
        assert tops == still == [100.0] * 25
        assert after == pytest.approx(before, abs=0.5)
        history.clock.now = T0 + 26 * HOUR
        assert (await store.maintain()).written == 2
        summed = await curve(store, "n561-0", hours)
        assert summed == pytest.approx(before, abs=1.0)
        assert (await store.maintain()).written == 0


async def test_each_tier_is_removed_after_its_time(history: HistoryStage) -> None:
    kept = TierRetention(raw_us=DAY, minutes_us=2 * DAY, hours_us=10 * DAY)
    grid = Grid(start_us=T0, step_us=HOUR, points=1)
    async with history.store(kept=kept) as store:
        fill(store, roster(), load=lambda _: 30.0, first_us=T0, last_us=T0 + HOUR)
        await store.flush()
        removed = []
        for days in (0.5, 1.5, 2.5, 9.5, 11.5):
            history.clock.now = T0 + int(days * DAY)
            removed.append((await store.maintain()).removed)
            assert await curve(store, "n561-0", grid) == ([30.0] if days < 11 else [])
        assert removed == [0, 12, 1, 0, 1]
        fill(store, roster(), load=lambda _: 70.0, first_us=history.clock.now, last_us=history.clock.now + HOUR)
        await store.flush()
        later = covering(history.clock.now, history.clock.now + HOUR, step_s=3600)
        assert await curve(store, "n561-0", later) == [70.0]


async def test_a_coarser_tier_is_kept_as_long_as_a_finer_one(history: HistoryStage) -> None:
    kept = TierRetention(raw_us=None, minutes_us=2 * DAY, hours_us=2 * DAY)
    async with history.store(kept=kept) as store:
        fill(store, roster(), load=lambda _: 30.0, first_us=T0, last_us=T0 + HOUR)
        await store.flush()
        history.clock.now = T0 + 5 * DAY
        assert (await store.maintain()).removed == 0
        for step_us in (MINUTE, HOUR):
            assert await curve(store, "n561-0", Grid(start_us=T0, step_us=step_us, points=1)) == [30.0]
    assert TierRetention(raw_us=3, minutes_us=2, hours_us=1).of(Tier.HOURS) == 3
    assert TierRetention(raw_us=1, minutes_us=None, hours_us=1).of(Tier.HOURS) is None


async def test_a_series_removed_by_another_server_is_created_again(history: HistoryStage) -> None:
    async with history.store() as follower, history.store() as leader:
        follower.take(sample(roster(devices=1), T0, 10.0))
        await follower.flush()
        history.clock.now = T0 + 400 * DAY
        for _ in range(2):
            await leader.maintain()
        later = covering(history.clock.now, history.clock.now + 10 * SECOND, step_s=10)
        follower.take(sample(roster(devices=1), history.clock.now, 20.0))
        await follower.flush()
        for store in (follower, leader):
            assert await curve(store, "n561-0", later) == [20.0]


async def test_history_continues_when_the_devices_of_an_agent_change(history: HistoryStage) -> None:
    async with history.store() as store:
        store.take(sample(roster(devices=1), T0, 10.0))
        store.take(sample(roster(devices=2), T0 + 10 * SECOND, 20.0))
        await store.flush()
        grid = covering(T0, T0 + 20 * SECOND, step_s=10)
        assert await curve(store, "n561-0", grid) == [10.0, 20.0]
        assert await curve(store, "n561-1", grid) == [None, 10.0]


async def test_queue_measures_are_added_up_over_agents_and_time(history: HistoryStage) -> None:
    names = ("pending", "submitted", "waited", "gpus_total", "gpus_held", "gpus_held_idle")
    async with history.store() as store:
        store.take(sample(roster("a", 2, node="n"), T0, 80.0, held=500.0))
        store.take(sample(roster("b", 2), T0, 0.0, held=1000.0))
        for number in range(60):
            store.take(queue_sample(T0 + number * 10 * SECOND, pending=4, submitted=2, started=1))
        await store.flush()
        found = (await store.gathered(MeasureKind.QUEUE, "", covering(T0, T0 + 600 * SECOND, step_s=60)))[WHOLE]
        first = {name: float(found.mean[index_of(MeasureKind.QUEUE, name), 0]) for name in names}
        assert first == {
            "pending": 4.0,
            "submitted": 12.0,
            "waited": 12.0,
            "gpus_total": 4.0,
            "gpus_held": 3.0,
            "gpus_held_idle": 2.0,
        }
        history.clock.now = T0 + 2 * HOUR
        await store.maintain()
        summed = (await store.gathered(MeasureKind.QUEUE, "", covering(T0, T0 + 600 * SECOND, step_s=600)))[WHOLE]
        assert float(summed.mean[index_of(MeasureKind.QUEUE, "submitted"), 0]) == 120.0


async def test_very_large_totals_of_waiting_time_are_stored_exactly(history: HistoryStage) -> None:
    waited, many = index_of(MeasureKind.QUEUE, "waited"), 10**10
    grid = covering(T0, T0 + HOUR, step_s=3600)
    async with history.store() as store:
        for number in range(3):
            store.take(queue_sample(T0 + number * 10 * SECOND, started=many * (number % 2)))
        await store.flush()
        for after_us in (HOUR, 3 * HOUR, 2 * DAY):
            history.clock.now = T0 + after_us
            await store.maintain()
            found = (await store.gathered(MeasureKind.QUEUE, "", grid))[WHOLE]
            assert float(found.mean[waited, 0]) == 2.0 * many


async def test_samples_are_neither_missed_nor_counted_twice_during_a_write(history: HistoryStage) -> None:
    grid = covering(T0, T0 + HOUR, step_s=3600)
    submitted = index_of(MeasureKind.QUEUE, "submitted")
    async with history.store() as store:
        for number in range(20):
            store.take(queue_sample(T0 + number * 10 * SECOND, submitted=1))
            found, *_ = await asyncio.gather(
                store.gathered(MeasureKind.QUEUE, "", grid),
                store.flush(),
                store.gathered(MeasureKind.QUEUE, "", grid),
                store.flush(),
            )
            assert float(found[WHOLE].mean[submitted, 0]) == number + 1
        found = await store.gathered(MeasureKind.QUEUE, "", grid)
        assert float(found[WHOLE].mean[submitted, 0]) == 20


@pytest.mark.parametrize("agent", ["b", "c"])
async def test_windows_that_reach_into_the_next_hour_are_summed_up_in_both(history: HistoryStage, agent: str) -> None:
    minutes, hours = covering(T0, T0 + 3 * HOUR, step_s=60), covering(T0, T0 + 3 * HOUR, step_s=3600)
    async with history.store() as store:
        last_us = T0 + 2 * HOUR + 3 * MINUTE
        fill(store, roster(agent, 1), load=lambda s: float(s // 60 % 50), first_us=T0 + MINUTE, last_us=last_us)
        await store.flush()
        before = [await curve(store, f"{agent}-0", grid) for grid in (minutes, hours)]
        assert before[0][0] is None
        assert [value for value in before[0][1:123] if value is None] == []
        history.clock.now = T0 + DAY
        assert (await store.maintain()).written >= 3
        assert await curve(store, f"{agent}-0", minutes) == before[0]
        assert await curve(store, f"{agent}-0", hours) == pytest.approx(before[1], abs=0.5)
