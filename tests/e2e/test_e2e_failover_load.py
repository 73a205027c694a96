"""Several servers on one database under load: database restart, and rolling restart of the servers."""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing, suppress
from typing import Any

import pytest

from aliquot.cli.acceptance.processes import OwnServer
from e2e_sessions import until
from failover_clients import submitting_clients
from failover_cluster import FailoverCluster, failover_cluster
from store_postgres import PostgresCluster

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CLIENTS = 6
ENOUGH = 12
"""Acknowledged submissions between faults."""
UPDATES = "subscription ($after: BigInt) { queue_updates(after: $after) { event_number session { id state } } }"


async def test_a_database_restart_under_load_delays_requests_and_loses_none(
    database_url: str, postgres: PostgresCluster
) -> None:
    async with failover_cluster(database_url, database_url) as on:
        async with submitting_clients(on, clients=CLIENTS) as submitters:
            for _ in range(2):
                await submitters.wait_for_more(ENOUGH)
                await asyncio.to_thread(postgres.restart)
            await submitters.wait_for_more(ENOUGH)
        await submitters.check()
        leader = await on.leader()
        other = next(server for server in on.servers if server is not leader)
        await on.wait_for_standing(other, role="follower", leader_address=leader.url)


async def test_a_rolling_restart_under_load_fails_no_request_that_is_retried(
    database_url: str,
) -> None:
    async with failover_cluster(database_url, database_url) as on:
        async with submitting_clients(on, clients=CLIENTS) as submitters:
            for server in on.servers:
                await submitters.wait_for_more(ENOUGH)
                assert await server.stop() == 0
                await submitters.wait_for_more(ENOUGH)
                await server.start()
            await submitters.wait_for_more(ENOUGH)
        await submitters.check()


async def test_a_queue_subscription_misses_no_update_when_its_server_becomes_the_leader(
    database_url: str,
) -> None:
    async with failover_cluster(database_url, database_url) as on:
        old, new = on.servers
        seen: list[dict[str, Any]] = []
        following = asyncio.create_task(_follow(on, new, seen))
        async with submitting_clients(on, clients=CLIENTS) as submitters:
            await submitters.wait_for_more(ENOUGH)
            await old.kill()
            await submitters.wait_for_more(ENOUGH)
        last = [await on.ended(session_id) for session_id in submitters.acknowledged.values()]
        assert {ended["exit_code"] for ended in last} == {0}
        await until(lambda: _has(seen, submitters.acknowledged))
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


async def _has(seen: list[dict[str, Any]], acknowledged: Mapping[str, str]) -> bool:
    return set(acknowledged.values()) <= _completed(seen)


def _completed(seen: list[dict[str, Any]]) -> set[str]:
    return {update["session"]["id"] for update in seen if update["session"]["state"] == "completed"}
