"""Several servers on one database: one term ends and the next begins."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from aliquot.service.leadership.ports import ServerRole
from aliquot.service.ports import NotLeader
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.events import Event
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.states import AgentState, SessionState
from leader_servers import CALLER, OneServer, servers_on
from service_bench import agent
from store_places import Place

pytestmark = pytest.mark.anyio


@pytest.fixture
def place(database_url: str, tmp_path: Path) -> Place:
    """The same database, for changes that bypass the servers."""
    return Place(database_url, tmp_path)


async def test_when_the_leader_stops_the_follower_takes_over(database_url: str) -> None:
    fake = agent("a", devices=2)
    async with servers_on(database_url, [fake]) as servers:
        old, new = servers.all
        runs = await old.submit()
        await new.until_state(runs, SessionState.RUNNING)
        await old.stop()
        assert await servers.leader() is new
        after = await new.submit()
        await new.until_state(after, SessionState.RUNNING)
        new.executors[-1].end_kernel(KernelId(f"{runs}.1.0"), code=7)
        await new.until_state(runs, SessionState.FAILED)
        assert fake.starts == [KernelId(f"{runs}.1.0"), KernelId(f"{after}.1.0")]
        assert new.duty.standing.epoch == 2
        assert {event.epoch for event in await _log(new)} == {1, 2}


async def test_a_leader_that_lost_the_lock_follows_and_knows_the_new_leader(database_url: str, place: Place) -> None:
    async with servers_on(database_url, [agent("a", devices=1)]) as servers:
        old = servers.all[0]
        await place.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{old.address}'"
        )
        await old.until(lambda: old.duty.standing.epoch == 2)
        leader = await servers.leader()
        follower = next(server for server in servers.all if server is not leader)
        await follower.until(lambda: follower.duty.standing.leader_address == leader.address)
        assert follower.duty.standing.role is ServerRole.FOLLOWER
        assert follower.duty.standing.since_us == leader.duty.standing.since_us
        session_id = await follower.submit()
        await follower.until_state(session_id, SessionState.RUNNING)
        assert not old.running.done()


async def test_a_leader_of_an_ended_term_commits_only_changes_of_users(database_url: str) -> None:
    """As after a freeze: the seat went to another server, and it does not know yet."""
    async with servers_on(database_url, [agent("a", devices=1)]) as servers:
        old, new = servers.all
        await new.database.store.begin_term()
        journal = old.cases.journal
        assert (journal.leads, journal.epoch) == (True, 1)
        revision = old.cases.state.revision
        with pytest.raises(NotLeader):
            await journal.persist(_drain, actor="system:test")
        assert old.cases.state.revision == revision
        session_id = await old.submit(held=True)
        assert not journal.leads
        await new.until_state(session_id, SessionState.HELD)


async def test_a_change_of_a_user_during_a_new_term_is_committed(database_url: str) -> None:
    async with servers_on(database_url, [agent("a", devices=1)]) as servers:
        old, new = servers.all
        await new.database.store.begin_term()
        session_id = await old.submit()
        leader = await servers.leader()
        await leader.until_state(session_id, SessionState.RUNNING)
        await leader.until(lambda: leader.duty.standing.epoch > 1)


async def test_servers_that_start_together_agree_on_one_leader(database_url: str) -> None:
    async with servers_on(database_url, [], count=4) as servers:
        leader = await servers.leader()
        for server in servers.all:
            await server.until(lambda server=server: server.duty.standing.leader_address == leader.address)
        assert [server.leads for server in servers.all].count(True) == 1


async def test_a_new_server_loads_the_state_and_follows(database_url: str) -> None:
    async with servers_on(database_url, [agent("a", devices=1)], count=1) as servers:
        leader = servers.all[0]
        first, second = await leader.submit(), await leader.submit()
        await leader.until_state(first, SessionState.RUNNING)
        late = await servers.start()
        assert late.session(first).state is SessionState.RUNNING
        await late.cases.sessions.cancel_session(CALLER, second, None)
        await leader.until_state(second, SessionState.CANCELED)
        assert late.cases.state.agents[AgentId("a")].state is AgentState.ALIVE


async def test_servers_recover_by_themselves_after_database_connections_are_lost(
    database_url: str, place: Place
) -> None:
    async with servers_on(database_url, [agent("a", devices=1)]) as servers:
        one, two = servers.all
        for _ in range(3):
            await place.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )
            await asyncio.gather(*(_submit_again(server) for server in servers.all))
        leader = await servers.leader()
        for server in (one, two):
            await server.until(lambda server=server: server.cases.state.revision >= leader.cases.state.revision)
        session_id = await one.submit(idempotency_key="last")
        await two.until(lambda: session_id in two.cases.state.sessions)


def _drain(draft: UnitOfWork) -> None:
    agent_a = draft.agent(AgentId("a"))
    assert agent_a is not None
    draft.put(replace(agent_a, draining=True), "draining")


async def _log(server: OneServer) -> tuple[Event, ...]:
    return await server.database.store.events_after(0, limit=1000)


async def _submit_again(server: OneServer) -> None:
    """Retry with the same key until acknowledged."""
    key = f"{server.address}-{server.cases.state.revision}"
    for _ in range(20):
        try:
            await server.submit(idempotency_key=key)
            return
        except Exception as error:
            if getattr(error, "code", "") != "unavailable":
                raise
    raise AssertionError("the database is back, and nothing can be submitted")
