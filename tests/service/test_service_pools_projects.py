"""Pools and projects: their contents, their waiting and running sessions, and counts that stay exact."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.service.admin.admin import Administration
from aliquot.service.state.indexes import NO_SESSIONS, PendingCounts, QueueCounts
from aliquot_schema.cluster.launching import AgentSilent
from aliquot_schema.ids import AgentId, PoolId, ProjectId, SessionId
from aliquot_schema.policies import Pool
from aliquot_schema.quotas import QuotaScope
from aliquot_schema.sessions import Session
from aliquot_schema.states import ACTIVE, PENDING, SessionState
from aliquot_schema.views.admin import ClusterPoolView, NewQuota, ProjectView
from core_records import session
from service_bench import agent
from service_stage import CALLER, Stage, stage

POOLS = {"default": Pool(), "pool2": Pool(), "pool10": Pool()}


def office(on: Stage) -> Administration:
    return Administration(state=on.state, journal=on.journal, clock=on.clock)


def pool(on: Stage, name: str) -> ClusterPoolView:
    (found,) = on.queries.pools(CALLER, name=name)
    return found


def projects(on: Stage) -> dict[str, ProjectView]:
    return {view.name: view for view in on.queries.projects(CALLER, name=None)}


@pytest.mark.anyio
async def test_a_pool_shows_its_agents_gpus_waiting_and_running_sessions() -> None:
    agents = [agent("a", devices=2, node="n"), agent("b", devices=2, node="n"), agent("c", devices=1)]
    async with stage(agents) as on:
        await office(on).policy.update_policy(CALLER, {"pools": POOLS}, None)
        await office(on).agents.assign_agent_pool(CALLER, "c", "pool2")
        assert [view.name for view in on.queries.pools(CALLER, name=None)] == ["default", "pool2", "pool10"]
        for asked in ({"slots": [("cuda.shares", "0.25")]}, {"devices": 1}, {"devices": 1}, {"pool": "pool10"}):
            await on.submit(**asked)  # type: ignore[arg-type]  # by name
            await on.advance()
        common, second, empty = (pool(on, name) for name in POOLS)
        assert (common.agents, common.nodes, common.schedulable) == (("a", "b"), ("n",), True)
        assert (common.gpu_count, common.gpu_type) == (2, "H100")
        assert (common.total_gpus, common.available_gpus, common.allocated_gpus) == (2.0, 0.75, 1.25)
        shown = {slot.slot: (slot.total, slot.available, slot.allocated) for slot in common.capacity}
        assert shown["cuda.shares"] == ("2.00", "0.75", "1.25")
        assert (common.total_queued, common.running) == (1, 2)
        assert (second.agents, second.total_gpus, second.available_gpus, second.running) == (("c",), 1.0, 1.0, 0)
        assert (empty.agents, empty.schedulable, empty.capacity, empty.total_queued) == ((), False, (), 1)
        assert on.queries.pools(CALLER, name="none") == ()


@pytest.mark.anyio
async def test_a_pool_without_a_schedulable_agent_is_not_schedulable() -> None:
    async with stage([agent("a", devices=2), agent("b", devices=1)]) as on:
        await office(on).agents.drain_agent(CALLER, "a", note=None, evicts=False)
        assert (pool(on, "default").schedulable, pool(on, "default").available_gpus) == (True, 1.0)
        await on.on_event(AgentSilent(agent_id=AgentId("b"), lost=True))
        lost = pool(on, "default")
        assert (lost.schedulable, lost.agents, lost.total_gpus, lost.available_gpus) == (False, ("a", "b"), 2.0, 0.0)


@pytest.mark.anyio
async def test_gpu_counts_of_the_pools_add_up_to_those_of_the_cluster() -> None:
    async with stage([agent("a", devices=3), agent("b", devices=2)]) as on:
        await office(on).policy.update_policy(CALLER, {"pools": POOLS}, None)
        await office(on).agents.assign_agent_pool(CALLER, "b", "pool10")
        await on.submit(slots=[("cuda.shares", "1.3")], pool="pool10")
        await on.submit(devices=2)
        await on.advance()
        whole, parts = on.queries.cluster(CALLER, None), on.queries.pools(CALLER, name=None)
        for field in ("total_gpus", "available_gpus", "allocated_gpus"):
            assert sum(getattr(one, field) for one in parts) == pytest.approx(getattr(whole, field))


@pytest.mark.anyio
async def test_a_project_shows_its_users_use_and_quota() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await office(on).quotas.set_quota(CALLER, NewQuota(scope=QuotaScope.PROJECT, name="idle", max_queued=3), None)
        await on.create_project("vision")
        await on.submit(project="vision", slots=[("cuda.shares", "0.5")])
        await on.advance()
        on.clock.advance(3600)
        waiting = await on.submit(project="vision", devices=2)
        await on.advance()
        seen = projects(on)
        assert list(seen) == ["idle", "vision"]
        vision = seen["vision"]
        assert (vision.users, vision.total_queued, vision.running) == (("ann",), 1, 1)
        assert vision.allocated_gpus == 0.5
        assert vision.gpu_hours == pytest.approx(0.5, abs=0.01)
        assert [(one.user, one.gpu_hours) for one in vision.usage] == [("ann", vision.gpu_hours)]
        assert (vision.share, vision.quota) == (1.0, None)
        idle = seen["idle"]
        assert (idle.users, idle.gpu_hours, idle.share, idle.allocated_gpus) == ((), 0.0, 0.0, 0.0)
        assert idle.quota is not None
        assert idle.quota.max_queued == 3
        assert [one.name for one in on.queries.projects(CALLER, name="vision")] == ["vision"]
        assert on.queries.projects(CALLER, name="none") == ()
        await office(on).quotas.remove_quota(CALLER, QuotaScope.PROJECT, "idle", None)
        await on.cancel(waiting)
        assert list(projects(on)) == ["idle", "vision"]
        assert projects(on)["vision"].total_queued == 0


@pytest.mark.anyio
async def test_an_array_is_counted_by_its_waiting_and_running_tasks() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await on.submit(array="0-4")
        assert (pool(on, "default").total_queued, pool(on, "default").running) == (5, 0)
        await on.advance()
        assert (pool(on, "default").total_queued, pool(on, "default").running) == (3, 2)


MOVES = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(SessionState), st.sampled_from(["p", "q"])), max_size=30)


@settings(deadline=None)
@given(MOVES)
def test_counts_per_project_match_the_sessions_after_any_state_changes(
    moves: list[tuple[int, SessionState, str]],
) -> None:
    population, there = PendingCounts(), dict[int, Session]()
    for number, state, project in moves:
        before = there.get(number)
        now = session(state, id=SessionId(f"ses_{number}"), project=ProjectId(project))
        there[number] = now if before is None else replace(before, state=state)
        population.put(there[number], before=before)
    for name in ("p", "q"):
        of = [one.state for one in there.values() if one.project == name]
        expected = QueueCounts(sum(state in PENDING for state in of), sum(state in ACTIVE for state in of))
        assert population.of_projects().get(ProjectId(name), NO_SESSIONS) == expected
    alive = [one for one in there.values() if not one.is_ended]
    assert population.owners() == {(one.project, one.owner) for one in alive}
    assert sum(sum(counted) for counted in population.of_pools().values()) == len(alive)
    assert set(population.of_pools()) <= {PoolId("default")}
