"""Several servers on one database under load: the database is restarted, and so are the servers, one by one."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import pytest

from aliquot.cli.main_job.own_server import OwnServer
from aliquot.client import ClientFailure
from e2e_sessions import until
from failover_cluster import FailoverCluster, failover_cluster
from store_postgres import PostgresCluster, postgres_cluster

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CLIENTS = 6
ENOUGH = 12
"""Acknowledged submissions between two blows."""
UPDATES = "subscription ($after: BigInt) { queue_updates(after: $after) { event_number session { id state } } }"
LISTED = "query ($after: String) { sessions(first: 100, after: $after) { edges { cursor node { id name state } } } }"


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresCluster]:
    with postgres_cluster() as cluster:
        yield cluster


@pytest.fixture
def database_url(postgres: PostgresCluster) -> str:
    return postgres.new_database()


class Load:
    """Clients that submit as long as they may, each its own keys, at whichever server answers."""

    def __init__(self, on: FailoverCluster) -> None:
        self._on = on
        self.acknowledged: dict[str, str] = {}
        """Session ids by key."""
        self._news = asyncio.Event()

    async def submit_for_ever(self, client: int) -> None:
        for count in range(10**6):
            key = f"{client}-{count}"
            mark = self._on.mark(key)
            self.acknowledged[key] = await self._on.submit(f"echo run >> {mark}", key=key, first=client)
            self._news.set()

    async def until_more(self) -> None:
        """Wait until everybody who asks is answered again."""
        before = len(self.acknowledged)
        async with asyncio.timeout(60):
            while len(self.acknowledged) < before + ENOUGH:
                self._news.clear()
                await self._news.wait()

    async def check(self) -> None:
        """Everything acknowledged is there, once, and runs to its end once."""
        assert len(set(self.acknowledged.values())) == len(self.acknowledged)
        for key, session_id in self.acknowledged.items():
            ended = await self._on.ended(session_id)
            assert (ended["exit_code"], self._on.runs(key)) == (0, 1), (key, ended)
        for server in self._on.servers:
            listed = await _sessions(self._on, server)
            assert set(self.acknowledged.values()) <= set(listed)


@asynccontextmanager
async def loaded(on: FailoverCluster) -> AsyncIterator[Load]:
    load = Load(on)
    clients = [asyncio.create_task(load.submit_for_ever(client)) for client in range(CLIENTS)]
    try:
        yield load
    finally:
        for client in clients:
            client.cancel()
        ends = await asyncio.gather(*clients, return_exceptions=True)
        assert [end for end in ends if not isinstance(end, asyncio.CancelledError)] == []


async def test_a_database_that_is_restarted_under_load_costs_nothing_but_time(
    database_url: str, postgres: PostgresCluster
) -> None:
    async with failover_cluster(database_url, database_url) as on:
        async with loaded(on) as load:
            for _ in range(2):
                await load.until_more()
                await asyncio.to_thread(postgres.restart)
            await load.until_more()
        await load.check()
        leader = await on.leader()
        other = next(server for server in on.servers if server is not leader)
        await on.until_standing(other, role="follower", leader_address=leader.url)


async def test_servers_restarted_one_after_the_other_under_load_fail_no_request_that_is_tried_again(
    database_url: str,
) -> None:
    async with failover_cluster(database_url, database_url) as on:
        async with loaded(on) as load:
            for server in on.servers:
                await load.until_more()
                assert await server.stop() == 0
                await load.until_more()
                await server.start()
            await load.until_more()
        await load.check()


async def test_who_follows_the_queue_at_a_follower_misses_nothing_while_it_becomes_the_leader(
    database_url: str,
) -> None:
    async with failover_cluster(database_url, database_url) as on:
        old, new = on.servers
        seen: list[dict[str, Any]] = []
        following = asyncio.create_task(_follow(on, new, seen))
        async with loaded(on) as load:
            await load.until_more()
            await old.kill()
            await load.until_more()
        last = [await on.ended(session_id) for session_id in load.acknowledged.values()]
        assert {ended["exit_code"] for ended in last} == {0}
        await until(lambda: _has(seen, load))
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        numbers = [update["event_number"] for update in seen]
        again: list[dict[str, Any]] = []
        with suppress(TimeoutError):
            await asyncio.wait_for(_follow(on, new, again, until=numbers[-1]), 60)
        assert numbers == [update["event_number"] for update in again]


async def _follow(
    on: FailoverCluster, server: OwnServer, seen: list[dict[str, Any]], *, until: str | None = None
) -> None:
    updates = on.client(server).subscribe(UPDATES, {"after": "0"})
    async with aclosing(updates):
        async for update in updates:
            seen.append(update["queue_updates"])
            if seen[-1]["event_number"] == until:
                return


async def _has(seen: list[dict[str, Any]], load: Load) -> bool:
    return set(load.acknowledged.values()) <= _completed(seen)


def _completed(seen: list[dict[str, Any]]) -> set[str]:
    return {update["session"]["id"] for update in seen if update["session"]["state"] == "completed"}


async def _sessions(on: FailoverCluster, server: OwnServer) -> list[str]:
    found: list[str] = []
    after = None
    while True:
        with suppress(ClientFailure):
            edges = (await on.client(server).execute(LISTED, {"after": after}))["sessions"]["edges"]
            found += [edge["node"]["id"] for edge in edges]
            if len(edges) < 100:
                return found
            after = edges[-1]["cursor"]
