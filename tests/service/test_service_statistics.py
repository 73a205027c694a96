"""Statistics of the queue and the GPUs, and of one session."""

import pytest

from aliquot.service.queries.statistics import BUCKETS_S
from aliquot.service.quotas import Quotas
from aliquot_schema.ids import AgentId, NodeId
from aliquot_schema.quotas import QuotaScope
from aliquot_schema.views.admin import NewQuota
from aliquot_schema.views.statistics import GpusView, QueueStatisticsView
from service_bench import agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio


def queue(on: Stage) -> QueueStatisticsView:
    return on.queries.queue_statistics(CALLER)


def gpus(on: Stage) -> GpusView:
    return on.queries.cluster(CALLER, None).look()


async def test_an_empty_queue_has_no_waits() -> None:
    async with stage([agent("a", devices=1)]) as on:
        seen = queue(on)
        assert (seen.total_queued, seen.oldest_wait, seen.average_wait_time, seen.throughput) == (0, None, None, 0.0)
        assert [bucket.count for bucket in seen.wait_distribution] == [0] * len(BUCKETS_S)


async def test_waits_are_from_submission_to_devices() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await on.submit()
        await on.advance()
        await on.submit(array="0-3")
        on.clock.advance(30)
        on.executor.end_kernel(on.live()[0])  # type: ignore[arg-type]  # a kernel's id
        await on.settle()
        await on.advance()
        seen = queue(on)
        assert seen.total_queued == 3
        assert seen.oldest_wait == pytest.approx(30, abs=0.1)
        assert (seen.started, seen.finished) == (2, 1)
        assert seen.average_wait_time == pytest.approx(15, abs=0.1)
        assert seen.throughput == pytest.approx(seen.finished * 3600 / seen.window)
        counts = {bucket.at_least: bucket.count for bucket in seen.wait_distribution if bucket.count}
        assert counts == {0.0: 1, 10.0: 1}


async def test_queue_statistics_ignore_events_before_the_last_hour() -> None:
    async with stage([agent("a", devices=1)]) as on:
        on.clock.advance(7200)
        await on.submit()
        await on.advance()
        assert (queue(on).started, queue(on).window) == (1, 3600.0)
        on.clock.advance(3601)
        assert (queue(on).started, queue(on).average_wait_time) == (0, None)


async def test_the_statistics_window_is_shorter_if_older_sessions_left_memory() -> None:
    async with stage([agent("a", devices=1)], ended_kept=1) as on:
        on.clock.advance(7200)
        for _ in range(3):
            await on.submit()
            await on.advance()
            on.clock.advance(60)
            on.executor.end_kernel(on.live()[0])  # type: ignore[arg-type]  # a kernel's id
            await on.settle()
        on.clock.advance(100)
        seen = queue(on)
        assert seen.window == pytest.approx(100, abs=1)
        assert seen.finished == 0


async def test_a_shared_gpu_counts_by_its_parts_and_once_for_all_agents_of_its_node() -> None:
    async with stage([agent("a", devices=2, node="n"), agent("b", devices=2, node="n")]) as on:
        await on.submit(slots=[("cuda.shares", "0.3")])
        await on.submit(slots=[("cuda.device", "1")])
        await on.advance()
        seen = gpus(on)
        assert (seen.total_gpus, seen.available_gpus, seen.allocated_gpus) == (2.0, 0.7, 1.3)
        assert [(gpu.id, gpu.allocated) for node in seen.nodes for gpu in node.gpus] == [
            (gpu.id, gpu.allocated) for gpu in seen.gpus
        ]
        assert [(node.node_id, node.gpu_count, node.gpu_type, node.agents) for node in seen.nodes] == [
            (NodeId("n"), 2, "H100", (AgentId("a"), AgentId("b")))
        ]
        held = {gpu.allocated: [holder.share for holder in gpu.allocated_to] for gpu in seen.gpus}
        assert held == {0.3: ["0.30"], 1.0: ["1.00"]}


async def test_gpus_of_an_unreachable_agent_are_not_available() -> None:
    async with stage([agent("a", devices=2), agent("b", devices=1)]) as on:
        on.state.reachable.discard(AgentId("b"))
        seen = gpus(on)
        assert (seen.total_gpus, seen.available_gpus, seen.allocated_gpus) == (3.0, 2.0, 0.0)


async def test_a_session_shows_requested_and_allocated_gpus() -> None:
    async with stage([agent("a", devices=2)]) as on:
        name = await on.submit(slots=[("cuda.shares", "0.5")], kernels=2, gpu_memory_gb="20", time_limit=60)
        blocked = await on.submit(devices=2)
        await on.advance()
        view, waiting = await on.queries.session(CALLER, name), await on.queries.session(CALLER, blocked)
        assert view is not None
        assert waiting is not None
        assert (view.requested_gpus, view.requested_memory_gb, view.scheduling_policy) == (1.0, "20", "fair_share")
        assert view.allocation_time == view.scheduled_at
        assert sum(part.share for part in view.allocated_gpus) == 1.0
        assert sum(part.memory_gb for part in view.allocated_gpus) == 80.0
        assert {part.node_id for part in view.allocated_gpus} == {on.state.node_of(AgentId("a"))}
        assert (waiting.allocated_gpus, waiting.allocation_time) == ((), None)
        assert waiting.estimated_start_time == waiting.expected_start
        assert waiting.expected_start is not None
        assert waiting.estimated_wait_time == pytest.approx(60, abs=1)


async def held_back(on: Stage, *, most: str) -> None:
    """A quota for Ann, and a pass under it."""
    quotas = Quotas(state=on.state, journal=on.journal, clock=on.clock)
    await quotas.set_quota(
        CALLER, NewQuota(scope=QuotaScope.USER, name="ann", max_slots=(("cuda.shares", most),)), None
    )
    await on.advance()


async def test_gpus_idle_while_quotas_hold_back_sessions_are_reported() -> None:
    async with stage([agent("a", devices=4)]) as on:
        for devices in (1, 1, 1, 2):
            await on.submit(devices=devices)
        await on.submit(held=True)
        await held_back(on, most="2")
        idle = on.queries.idle_behind_quotas(CALLER)
        assert idle is not None
        assert idle.message == "2 GPUs are free; 2 of 2 waiting sessions are held back by quotas"
        assert (idle.gpus_free, idle.sessions_held_back, idle.sessions_waiting) == (2.0, 2, 2)


@pytest.mark.parametrize(
    ("running", "waiting", "most"), [(4, 1, "8"), (1, 4, "4"), (1, 1, "8")], ids=["full", "too large", "not a quota"]
)
async def test_gpus_idle_for_other_reasons_are_not_reported_as_idle_behind_quotas(
    running: int, waiting: int, most: str
) -> None:
    """Cases: none is free, the session is too large for the free ones, no quota holds it."""
    async with stage([agent("a", devices=4)]) as on:
        await on.submit(devices=running)
        await on.advance()
        await on.submit(devices=waiting)
        await held_back(on, most=most)
        assert on.queries.idle_behind_quotas(CALLER) is None


async def test_an_idle_gpu_share_behind_quotas_is_reported_in_the_singular() -> None:
    async with stage([agent("a", devices=1)]) as on:
        for _ in range(2):
            await on.submit(slots=[("cuda.shares", "0.5")])
        await on.submit(slots=[("cuda.shares", "0.25")])
        await held_back(on, most="0.5")
        idle = on.queries.idle_behind_quotas(CALLER)
        assert idle is not None
        assert idle.message == "0.5 GPU is free; 2 of 2 waiting sessions are held back by quotas"
