"""The leader's seat, terms, and commit notices, on a real PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy import make_url

import store_records as make
from aliquot.service.leadership.ports import LeadershipLost
from aliquot.service.ports import NotLeader, StoreUnavailable
from aliquot.store.open import ServerDatabase, is_shared, share
from aliquot.store.replication.leadership import PostgresLeadershipLock
from store_places import Place, now_us
from store_postgres import PostgresCluster

pytestmark = pytest.mark.anyio

ONE, TWO = "http://one:8090", "http://two:8090"
WAIT_S = 30.0


@pytest.fixture
async def servers(anyio_backend: str, postgres_place: Place) -> AsyncIterator[tuple[ServerDatabase, ServerDatabase]]:
    """Two servers' handles on a database."""
    both = [share(postgres_place.url, now_us=now_us, address=address) for address in (ONE, TWO)]
    for server in both:
        await server.store.join()
    yield both[0], both[1]
    for server in both:
        await server.lock.leave()
        await server.notifications.close()
        await server.store.close()


async def test_one_server_holds_the_leader_lock_until_it_leaves(servers: tuple[ServerDatabase, ServerDatabase]) -> None:
    one, two = servers
    assert await one.lock.take()
    assert not await two.lock.take()
    assert await two.lock.holder() == ONE
    await one.lock.leave()
    assert await two.lock.take()
    assert await two.lock.holder() == TWO


@pytest.fixture
def another_place(postgres: PostgresCluster, tmp_path: Path) -> Iterator[Place]:
    """Another database of the same PostgreSQL."""
    with postgres.database() as url:
        yield Place(url, tmp_path)


async def test_each_database_has_its_own_leader_lock(postgres_place: Place, another_place: Place) -> None:
    seats = [PostgresLeadershipLock(make_url(place.url), address=ONE) for place in (postgres_place, another_place)]
    assert [await seat.take() for seat in seats] == [True, True]
    for seat in seats:
        await seat.leave()


async def test_a_disconnected_leader_notices_it_and_another_server_leads(
    postgres_place: Place, servers: tuple[ServerDatabase, ServerDatabase]
) -> None:
    one, two = servers
    assert await one.lock.take()
    holding = asyncio.create_task(one.lock.hold())
    await postgres_place.execute(
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{ONE}'"
    )
    async with asyncio.timeout(WAIT_S):
        with pytest.raises(LeadershipLost):
            await holding
    await _until(two.lock.take)
    assert not await one.lock.take()


async def test_a_frozen_leader_loses_the_leader_lock(postgres_place: Place) -> None:
    """A frozen server stops pinging; its connection stays open, and so would its lock."""
    frozen = PostgresLeadershipLock(make_url(postgres_place.url), address=ONE, silent_s=1)
    other = PostgresLeadershipLock(make_url(postgres_place.url), address=TWO)
    assert await frozen.take()
    await _until(other.take)
    with pytest.raises(LeadershipLost):
        await frozen.hold()
    await other.leave()


async def test_a_live_leader_keeps_the_leader_lock(
    postgres_place: Place, servers: tuple[ServerDatabase, ServerDatabase]
) -> None:
    seat = PostgresLeadershipLock(make_url(postgres_place.url), address=ONE, silent_s=3)
    assert await seat.take()
    holding = asyncio.create_task(seat.hold())
    began = await _database_time(postgres_place)
    while await _database_time(postgres_place) - began < 5.0:
        assert not await servers[1].lock.take()
    assert not holding.done()
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    await seat.leave()


async def test_no_server_leads_without_a_database(postgres_place: Place) -> None:
    seat = PostgresLeadershipLock(make_url(postgres_place.url).set(query={"host": "/nowhere"}), address=ONE)
    with pytest.raises(StoreUnavailable, match="the database cannot be"):
        await seat.take()
    assert await seat.holder() is None
    await seat.leave()


async def test_joining_keeps_the_epoch_and_a_new_term_ends_the_previous_term(
    servers: tuple[ServerDatabase, ServerDatabase],
) -> None:
    one, two = (server.store for server in servers)
    first = await one.begin_term()
    await one.commit(make.batch(make.session(), epoch=first.epoch))
    second = await two.begin_term()
    assert (first.epoch, second.epoch, second.revision) == (1, 2, 1)
    with pytest.raises(NotLeader):
        await one.commit(make.batch(make.session(), epoch=first.epoch))
    await one.commit(make.batch(make.session()))
    assert [event.epoch for event in await two.events_after(0, limit=10)] == [1, 2]
    assert second.last_at_us >= first.last_at_us


async def test_a_server_is_notified_only_of_commits_of_other_servers(
    servers: tuple[ServerDatabase, ServerDatabase],
) -> None:
    one, two = servers
    for server in servers:
        await _listen(server)
    mine, theirs = (asyncio.create_task(server.notifications.wait(seconds=WAIT_S)) for server in (one, two))
    await one.store.commit(make.batch(make.session()))
    await asyncio.wait_for(theirs, WAIT_S)
    assert not mine.done()
    await two.store.commit(make.batch(make.session()))
    await asyncio.wait_for(mine, WAIT_S)


async def test_notifications_resume_after_a_lost_connection(
    postgres_place: Place, servers: tuple[ServerDatabase, ServerDatabase]
) -> None:
    one, two = servers
    await _listen(one)
    waiting = asyncio.create_task(one.notifications.wait(seconds=WAIT_S))
    await postgres_place.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'aliquot notices'"
    )
    await asyncio.wait_for(waiting, WAIT_S)
    await _listen(one)
    waiting = asyncio.create_task(one.notifications.wait(seconds=WAIT_S))
    await two.store.commit(make.batch(make.session()))
    await asyncio.wait_for(waiting, WAIT_S)


@pytest.mark.parametrize(
    ("url", "answer"),
    [
        ("", False),
        ("sqlite:///x.db", False),
        ("postgresql://h/n", True),
        ("postgresql+asyncpg://h/n", True),
        ("?", False),
    ],
)
def test_only_a_postgresql_database_is_shared_by_servers(url: str, answer: bool) -> None:
    assert is_shared(url) is answer


async def _listen(server: ServerDatabase) -> None:
    """Connect; earlier commits may then arrive as notifications."""
    await server.notifications.wait(seconds=WAIT_S)


async def _until(take: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not await take():
            pass


async def _database_time(place: Place) -> float:
    connection = await asyncpg.connect(place.url)
    try:
        return float(await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())"))
    finally:
        await connection.close()
