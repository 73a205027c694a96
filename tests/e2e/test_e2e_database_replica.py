"""Servers on PostgreSQL with a streaming replica, which is promoted when the primary is lost."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from aliquot.cli.acceptance.processes import OwnServer, ServerFailed
from e2e_sessions import submit, until, until_state
from failover_clients import submitting_clients
from failover_cluster import failover_cluster
from store_postgres import in_memory
from store_replica import ReplicatedPostgres, replicated_postgres

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CLIENTS = 6
ENOUGH = 12
"""Acknowledged submissions before and after the database is lost."""


@pytest.fixture
def pair() -> Iterator[ReplicatedPostgres]:
    with replicated_postgres(parent=in_memory()) as pair:
        yield pair


@pytest.fixture
def database_url(pair: ReplicatedPostgres) -> str:
    return pair.url(pair.primary.new_database())


async def test_a_synchronous_replica_takes_over_and_nothing_acknowledged_is_lost(
    pair: ReplicatedPostgres, database_url: str
) -> None:
    await pair.start(synchronous=True)
    async with failover_cluster(database_url, database_url) as on:
        before = await on.job("before", code=3)
        async with submitting_clients(on, clients=CLIENTS) as submitters:
            await submitters.wait_for_more(ENOUGH)
            await pair.take_over()
            await submitters.wait_for_more(ENOUGH)
        await submitters.check()
        on.end_job("before")
        assert (await on.ended(before))["exit_code"] == 3
        assert on.runs("before") == 1


async def test_a_replica_that_lagged_is_refused_until_its_loss_is_accepted(
    pair: ReplicatedPostgres, database_url: str
) -> None:
    """Sessions that the replica has continue; others end, and their GPUs become free."""
    await pair.start(synchronous=False)
    async with failover_cluster(database_url, database_url) as on:
        kept = await on.job("kept", code=3)
        await on.wait_for_state(kept, "running", at=on.servers[1])
        await pair.lag()
        lost = await on.job("lost", code=4)
        for server in on.servers:
            await on.wait_for_state(lost, "running", at=server)
        await pair.take_over()
        for server in on.servers:
            assert await server.ended() == 1
            assert "the database ends at event" in server.log_tail()
            with pytest.raises(ServerFailed, match="the database ends at event"):
                await server.start()
        assert on.runs("kept") == on.runs("lost") == 1
        await _accept_loss(on.servers[0], database_url)
        for server in on.servers:
            await server.start()
        await on.wait_for_agents(on.servers[0])
        await until(lambda: _is_gone(on.mark("lost")))
        on.end_job("kept")
        assert (await on.ended(kept))["exit_code"] == 3
        client = on.client(on.servers[0])
        await until_state(client, await submit(client, "true", {"cuda.device": "8"}), "completed")
        assert (on.runs("kept"), on.runs("lost")) == (1, 1)


async def _is_gone(mark: Path) -> bool:
    """Whether all processes of the job have ended."""
    return not any(
        str(mark) in word for process in psutil.process_iter(["cmdline"]) for word in process.info["cmdline"] or []
    )


async def _accept_loss(server: OwnServer, database_url: str) -> None:
    """Accept the loss, as the message says; the servers share a data folder."""
    words = ("db", "restore", "--data-folder", str(server.data_folder))
    command = [sys.executable, "-m", "aliquot", *words, "--database", database_url]
    await asyncio.to_thread(subprocess.check_output, command, text=True, timeout=60)
