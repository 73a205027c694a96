"""History queries to a running service: from agents' readings to the answer, and permissions."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert

from aliquot.clock import SystemClock
from aliquot.service.history.history import History
from aliquot.service.history.ports import HistoryUnavailable
from aliquot.service.use_cases import ServiceParts
from aliquot.store.hash_chain import SEALS
from aliquot.store.store import DatabaseStore
from aliquot.store.timeseries.held_gpus import DatabaseHoldings
from aliquot.store.timeseries.history_store import HistoryDatabase, HistoryPlan, place_of
from aliquot.store.timeseries.tiers import TierRetention
from aliquot_schema.errors import Forbidden, NotFound
from aliquot_schema.ids import AgentId, UserId, kernel_id
from aliquot_schema.requests import Caller, Role
from aliquot_schema.resources.devices import DeviceReading
from aliquot_schema.states import SessionState
from aliquot_schema.views.statistics import HistoryView, UsageBy
from service_bench import CALLER, agent, gpus, service_on
from service_fakes import FakeExecutor

pytestmark = pytest.mark.anyio
AGENT = AgentId("a")


def kept(folder: Path) -> HistoryDatabase:
    now_us = SystemClock().now_us
    place = place_of("", data_folder=folder, now_us=now_us)
    return HistoryDatabase(
        HistoryPlan(make_database=place, kept=TierRetention(), interval_s=0.5, now_us=now_us, wall_us=now_us)
    )


async def archived(book: DatabaseHoldings) -> None:
    """Past holdings are marked as archived."""
    at_us = SystemClock().now_us()
    seal = {"id": "holdings-1", "kind": "holdings", "first": 1, "last": at_us, "rows": 1, "at_us": at_us}

    def write(connection: Connection) -> None:
        with connection.begin():
            connection.execute(insert(SEALS).values(seal))

    await book._database.write(write)


async def ask(history: History, **more: object) -> HistoryView:
    asked = {"device_ids": None, "since": None, "until": None, "points": 10} | more
    return await history.device_history(CALLER, "a", **asked)  # type: ignore[arg-type]  # by name


async def until_measured(history: History) -> HistoryView:
    """Query until the readings have arrived."""
    async with asyncio.timeout(60):
        while not (found := await ask(history)).series:  # noqa: ASYNC110 # there is no event
            await asyncio.sleep(0.01)
    return found


async def check_stats(history: History, session_id: str) -> None:
    """Statistics of a session just started on one GPU."""
    stats = await history.session_stats(CALLER, session_id)
    assert [(gpu.share, gpu.utilization) for gpu in stats.gpus] == [(1.0, 80.0)]
    assert stats.gpu_hours >= 0
    assert "too short to judge" in stats.advice


async def test_history_queries_answer_from_the_readings_of_agents(tmp_path: Path) -> None:
    executor = FakeExecutor([agent("a", devices=2)])
    store, books = kept(tmp_path), []

    def parts(database: DatabaseStore) -> ServiceParts:
        books.append(DatabaseHoldings(database))
        return ServiceParts(measurements=store, holdings=books[0])

    await store.open()
    async with service_on(tmp_path, executor, parts=parts) as bench:
        history, service = bench.service.history, bench.service
        await service.wait_for_agents(frozenset({AGENT}))
        without = History(state=service.state, queries=service.queries, clock=service.clock)
        with pytest.raises(HistoryUnavailable, match="keeps no history"):
            await ask(without)
        session_id = await bench.submit(devices=1)
        await bench.until_state(session_id, SessionState.RUNNING)
        executor.report_readings(AGENT, tuple(DeviceReading(device_id=one.id, utilization_pct=80.0) for one in gpus(2)))
        found = await until_measured(history)
        assert {(one.metric, one.agent_id) for one in found.series} == {("utilization", "a"), ("held", "a")}
        assert [value for one in found.series if one.metric == "utilization" for value in one.values if value] == [
            80,
            80,
        ]
        assert len({one.device_id for one in found.series}) == 2
        one_device = await ask(history, device_ids=(gpus(1)[0].id,))
        assert {one.device_id for one in one_device.series} == {gpus(1)[0].id}
        with pytest.raises(NotFound):
            await history.device_history(CALLER, "x", device_ids=None, since=None, until=None, points=10)

        mine = await history.session_history(CALLER, session_id, points=10)
        assert len({one.device_id for one in mine.series}) == 1
        await check_stats(history, session_id)
        stranger = Caller(user=UserId("eve"), request_id="req_test", role=Role.USER)
        with pytest.raises(Forbidden):
            await history.session_stats(stranger, session_id)
        with pytest.raises(Forbidden):
            await history.session_history(stranger, session_id, points=10)
        executor.end_kernel(kernel_id(session_id, attempt=1, rank=0))
        await bench.until_state(session_id, SessionState.COMPLETED)
        usage = await history.usage_history(stranger, by=UsageBy.USER, since=None, until=None, step=None)
        assert [(one.name, sum(one.gpu_hours) > 0) for one in usage.series] == [("ann", True)]
        assert [value for value in usage.series[0].utilization if value is not None] == [80.0]
        projects = await history.usage_history(CALLER, by=UsageBy.PROJECT, since=None, until=None, step=3600.0)
        assert [one.name for one in projects.series] == ["default"]
        queue = await history.queue_history(CALLER, since=None, until=None, points=10)
        assert "wait_mean" in {one.metric for one in queue.series}
        assert usage.warning is None
        await archived(books[0])
        less = await history.usage_history(CALLER, by=UsageBy.USER, since=None, until=None, step=None)
        assert "was archived or removed" in (less.warning or "")
    await store.close()
    with pytest.raises(HistoryUnavailable, match="not open"):
        await ask(history)
