"""Weights are searched on one part of a recorded history and evaluated on a later, unseen part."""

from contextlib import aclosing

import pytest
from msgspec.structs import replace

from aliquot.app.backtests import ProcessBacktests
from aliquot.core.simulation.tuning import BOUNDS, SEARCHED, TuningTask, cost, out_of_bounds, tune
from aliquot.service.backtests.ports import BacktestOrder, TuningOrder
from aliquot.service.backtests.recording import record
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.policies import PolicyDocument, Weights
from aliquot_schema.views.backtests import TuningReport
from recorded_workloads import RecordedCluster, recorded_cluster
from store_places import Place

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("place", ["sqlite"], indirect=True)]
PRESENT = PolicyDocument(weights=replace(Weights(), short=0, age=64), version=3)


async def lived(cluster: RecordedCluster) -> tuple[int, int]:
    """(split, end) of a run of two parts."""
    await cluster.settle()
    await cluster.run(150)
    split_us = cluster.on.clock.now_us()
    await cluster.run(150)
    return split_us, cluster.on.clock.now_us()


async def test_weights_are_tuned_on_the_first_part_of_a_record_and_judged_on_the_later_part(place: Place) -> None:
    task = TuningTask(document=PRESENT, tries=12, seed=1)
    async with recorded_cluster(place, seed=2) as (cluster, store):
        split_us, end_us = await lived(cluster)
        first = await record(store.ledger, since_us=0, until_us=split_us)
        later = await record(store.ledger, since_us=split_us, until_us=end_us)
    assert not {one.name for one in first.counted} & {one.name for one in later.counted}
    parts: list[float] = []
    report = tune(first, later, task, on_progress=parts.append)
    assert parts == sorted(parts)
    assert parts[-1] <= 1
    assert 1 <= report.tries <= 12
    before, after = report.searched
    assert report.changes
    assert cost(after, before) < 1
    assert out_of_bounds(after, before) is None
    for change in report.changes:
        least, most = BOUNDS[change.field]
        assert change.field in SEARCHED["fair_share"]
        assert least <= change.value <= most
    present, proposed = report.unseen
    assert (present.sessions, present.losers_count) == (len(later.counted), 0)
    assert report.is_better == (cost(proposed, present) <= 0.98 and out_of_bounds(proposed, present) is None)
    assert all(loser.wait > loser.wait_before for loser in report.losers)
    assert tune(first, later, task) == report, "one seed is one search"
    assert report.notes == ("first part: the record begins later than asked for",)


async def test_tuning_runs_in_its_own_process(place: Place) -> None:
    runner = ProcessBacktests(database_url="", data_folder=place.folder)
    async with recorded_cluster(place, seed=3) as (cluster, _):
        split_us, end_us = await lived(cluster)
        tuning = TuningOrder(document=PRESENT, split_us=split_us, tries=4)
        order = BacktestOrder(since_us=0, until_us=end_us, tuning=tuning)
        async with aclosing(runner.run(order)) as news:  # type: ignore[type-var]  # an async generator
            heard = [one async for one in news]
        found = heard[-1].tuning
        assert isinstance(found, TuningReport), heard[-1].failure
        assert (found.tries, found.base_version, found.split_us) == (4, 3, split_us)
        progress = [one.progress for one in heard if one.progress is not None]
        assert progress == sorted(progress)


async def test_a_record_shorter_than_the_requested_time_is_split_by_its_own_length(place: Place) -> None:
    """A new cluster is tuned with the same command."""
    runner = ProcessBacktests(database_url="", data_folder=place.folder)
    async with recorded_cluster(place, seed=3) as (cluster, _):
        _, end_us = await lived(cluster)
        idle_us = 100 * end_us  # nothing was submitted any more
        order = BacktestOrder(
            since_us=-100 * end_us, until_us=end_us + idle_us, tuning=TuningOrder(document=PRESENT, tries=1)
        )
        async with aclosing(runner.run(order)) as news:  # type: ignore[type-var]  # an async generator
            heard = [one async for one in news]
        found = heard[-1].tuning
    assert isinstance(found, TuningReport), heard[-1].failure
    assert found.since_us > 0
    assert found.split_us - found.since_us == pytest.approx(2 * (end_us - found.split_us), rel=1e-3)


async def test_tuning_with_too_few_sessions_is_refused(place: Place) -> None:
    async with recorded_cluster(place) as (cluster, store):
        await cluster.settle()
        await cluster.run(20)
        middle_us = cluster.on.clock.now_us()
        await cluster.run(20)
        history = await record(store.ledger, since_us=0, until_us=middle_us)
    with pytest.raises(InvalidRequest, match="20 are needed"):
        tune(history, history, TuningTask(document=PRESENT, tries=4))
    with pytest.raises(InvalidRequest, match="no weights to tune"):
        tune(history, history, TuningTask(document=PolicyDocument(order="fcfs"), tries=4))
