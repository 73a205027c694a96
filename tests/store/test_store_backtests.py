"""Backtests in the database: kept with their results over a restart, the newest ones, of all servers."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, update

from aliquot.service.backtests.ports import KEPT_MAX, BacktestOrder, TuningOrder
from aliquot.store.backtests import BACKTESTS
from aliquot.store.store import DatabaseStore
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.views.backtests import (
    BacktestReport,
    BacktestRow,
    BacktestSpread,
    BacktestState,
    BacktestView,
    TuningReport,
)
from store_places import Place

pytestmark = pytest.mark.anyio

ROW = BacktestRow(
    label="sjf",
    sessions=2,
    wait=BacktestSpread(mean=1.5),
    completion=BacktestSpread(),
    slowdown=1.0,
    utilization=0.5,
    utilization_queued=0.0,
    preemptions=0,
    lost_gpu_hours=0.0,
    fairness_users=1.0,
    fairness_projects=1.0,
    groups=(),
    winners=(),
    winners_count=0,
    losers=(),
    losers_count=0,
    utilization_over_time=(0.25, 0.75),
    waiting_over_time=(),
    wait_quantiles=(),
    assumed=0,
    exact=True,
)
REPORT = BacktestReport(
    since_us=0, until_us=1, sessions=2, reproduced=2, different_count=0, different=(), notes=("short",), rows=(ROW,)
)
TUNING = TuningReport(
    since_us=0,
    split_us=1,
    until_us=2,
    base_version=1,
    tries=3,
    changes=(),
    is_better=False,
    verdict="Nothing better was found.",
    searched=(ROW,),
    unseen=(ROW,),
    losers=(),
)


def view(name: str, state: BacktestState = BacktestState.RUNNING) -> BacktestView:
    at = datetime(2026, 5, 4, 3, 2, 1, 123456, tzinfo=UTC)
    return BacktestView(
        id=name,
        state=state,
        progress=0.5,
        created_at=at,
        created_by="root",
        since=at,
        until=at,
        labels=("sjf", "größer"),
        failure=None,
        report=None,
    )


def ended(name: str) -> BacktestView:
    return replace(view(name, BacktestState.COMPLETED), report=REPORT)


@pytest.fixture
async def opened(place: Place) -> AsyncIterator[DatabaseStore]:
    store = place.store()
    await store.open()
    yield store
    await store.close()


async def test_results_are_read_unchanged_after_a_restart(place: Place) -> None:
    tuned = replace(view("bkt_b", BacktestState.COMPLETED), tuning=TUNING, applied_version=2)
    store = place.store()
    await store.open()
    for one in (ended("bkt_a"), tuned, view("bkt_c")):
        await store.backtests.save(one, now_us=7)
    await store.close()
    store = place.store()
    await store.open()
    for one in (ended("bkt_a"), tuned, view("bkt_c")):
        found = await store.backtests.find(one.id)
        assert found is not None
        assert (found.view, found.saved_us) == (one, 7)
    bare = [view("bkt_c"), replace(tuned, tuning=None), replace(ended("bkt_a"), report=None)]
    assert [one.view for one in await store.backtests.newest()] == bare
    await store.close()


async def test_only_an_open_backtest_is_updated(opened: DatabaseStore) -> None:
    backtests = opened.backtests
    assert not await backtests.update(view("bkt_a"), now_us=1)
    assert await backtests.find("bkt_a") is None
    await backtests.save(view("bkt_a"), now_us=1)
    later = replace(view("bkt_a"), progress=0.75)
    assert await backtests.update(later, now_us=2)
    found = await backtests.find("bkt_a")
    assert found is not None
    assert (found.view, found.saved_us) == (later, 2)
    await backtests.save(ended("bkt_a"), now_us=3)
    assert not await backtests.update(later, now_us=4)
    kept = await backtests.find("bkt_a")
    assert kept is not None
    assert kept.view == ended("bkt_a")


async def test_the_newest_backtests_are_kept(opened: DatabaseStore) -> None:
    names = [f"bkt_{number:03}" for number in range(KEPT_MAX + 2)]
    for name in names:
        await opened.backtests.save(ended(name), now_us=1)
    assert [one.view.id for one in await opened.backtests.newest()] == names[:1:-1]
    assert await opened.backtests.find(names[1]) is None


async def test_a_row_that_cannot_be_read_is_left_out(opened: DatabaseStore, caplog: pytest.LogCaptureFixture) -> None:
    def damage(connection: Connection) -> None:
        with connection.begin():
            connection.execute(update(BACKTESTS).where(BACKTESTS.c.id == "bkt_b").values(summary='{"id": 1'))

    for name in ("bkt_a", "bkt_b", "bkt_c"):
        await opened.backtests.save(ended(name), now_us=1)
    await opened.write(damage)
    for _ in range(2):
        assert [one.view.id for one in await opened.backtests.newest()] == ["bkt_c", "bkt_a"]
    assert sum("bkt_b cannot be read" in line.getMessage() for line in caplog.records) == 1


async def test_an_end_is_saved_by_the_server_that_saved_the_backtest_last(opened: DatabaseStore) -> None:
    backtests = opened.backtests
    assert not await backtests.save(ended("bkt_a"), now_us=2, known_us={1, 2})
    await backtests.begin(view("bkt_a"), BacktestOrder(since_us=1, until_us=9), now_us=1)
    assert not await backtests.save(ended("bkt_a"), now_us=3, known_us={2, 3})
    assert await backtests.save(ended("bkt_a"), now_us=4, known_us={1, 4})
    assert await backtests.save(ended("bkt_a"), now_us=4, known_us={1, 4}), "the first write was not confirmed"
    found = await backtests.find("bkt_a")
    assert found is not None
    assert (found.view, found.saved_us, found.order) == (ended("bkt_a"), 4, None)


async def test_an_open_backtest_keeps_its_order_and_is_taken_over_once(opened: DatabaseStore) -> None:
    backtests, running = opened.backtests, view("bkt_a")
    tuning = TuningOrder(document=PolicyDocument(), split_us=5, tries=7, seed=3)
    order = BacktestOrder(since_us=1, until_us=9, tuning=tuning)
    await backtests.begin(running, order, now_us=1)
    assert await backtests.update(replace(running, progress=0.75), now_us=2, known_us=(1, 4))
    assert not await backtests.update(running, now_us=3, known_us=(1, 4))
    found = await backtests.find("bkt_a")
    assert found is not None
    assert (found.order, found.saved_us, found.view.progress) == (order, 2, 0.75)
    again = replace(order, interruptions=1)
    assert await backtests.take(running, again, now_us=5, known_us=2)
    assert not await backtests.take(running, again, now_us=6, known_us=2)
    taken = await backtests.find("bkt_a")
    assert taken is not None
    assert (taken.order, taken.saved_us, taken.view) == (again, 5, running)
    await backtests.save(ended("bkt_a"), now_us=7)
    assert not await backtests.take(running, again, now_us=8, known_us=7)
    done = await backtests.find("bkt_a")
    assert done is not None
    assert (done.view, done.order) == (ended("bkt_a"), None)
