"""Deltas: the queue as it was read once, and what was told since, is what reading it again gives, at any moment."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import pytest

from aliquot.cli.main_job.own_server import OwnServer
from aliquot.client import Client, GraphQLFault, Refused, ServerUnreachable
from api_deltas import Follower, Queue, poll
from failover_cluster import failover_cluster
from store_postgres import PostgresCluster, postgres_cluster

pytestmark = pytest.mark.anyio

CREATE: Final = """mutation ($input: CreateSessionInput!) { create_session(input: $input) {
  __typename ... on CreateSessionSuccess { session { id } } } }"""
CHANGES: Final = {
    "hold_session": "HoldSessionInput",
    "release_session": "ReleaseSessionInput",
    "cancel_session": "CancelSessionInput",
}
PRIORITY: Final = (
    "mutation ($input: UpdateSessionPriorityInput!) { update_session_priority(input: $input) { __typename } }"
)


class People:
    """They submit, hold, release, cancel and reorder, as they come."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._known: list[str] = []

    async def change(self, client: Client) -> None:
        """Change one thing; that a server is just down is no matter."""
        with suppress(ServerUnreachable, GraphQLFault, Refused):
            await self._change(client)

    async def submit(self, client: Client) -> str:
        """Submit a session, and return its id."""
        wanted: dict[str, Any] = {"command": {"shell": "true"}, "slots": [{"slot": "cpu", "amount": "1"}]}
        wanted["name"] = f"job {self._chance.randint(0, 99)}"
        answer = (await client.execute(CREATE, {"input": wanted}))["create_session"]
        self._known.append(answer["session"]["id"])
        return self._known[-1]

    async def _change(self, client: Client) -> None:
        if len(self._known) < 3 or self._chance.random() < 0.3:
            await self.submit(client)
            return
        chosen = self._chance.choice(self._known)
        name = self._chance.choice([*CHANGES, "priority"])
        if name == "priority":
            priority = self._chance.choice(["low", "normal", "high", "critical"])
            await client.execute(PRIORITY, {"input": {"id": chosen, "priority": priority}})
            return
        query = f"mutation ($input: {CHANGES[name]}!) {{ {name}(input: $input) {{ __typename }} }}"
        await client.execute(query, {"input": {"id": chosen}})


@asynccontextmanager
async def followed(servers: list[OwnServer], client: Client) -> AsyncIterator[Follower]:
    revision, queue = await poll(client)
    follower = Follower(servers, revision=revision, queue=queue)
    running = asyncio.create_task(follower.run())
    try:
        yield follower
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def test_a_snapshot_and_deltas_are_what_a_poll_gives_over_restarts() -> None:
    people = People(7)
    async with OwnServer("--no-local-agents", "--log-level=warning") as server, server.client() as client:
        for _ in range(10):
            await people.change(client)
        polls = []
        async with followed([server], client) as follower:
            for end in (server.kill, server.stop, None):
                for _ in range(25):
                    await people.change(client)
                    polls.append(await poll(client))
                if end is not None:
                    await end()
                    await server.start()
            await follower.told_of(await people.submit(client))
    _compare(follower, polls)
    assert follower.connections >= 3


@pytest.mark.slow
async def test_a_snapshot_and_deltas_are_what_a_poll_gives_over_changes_of_the_leader(database_url: str) -> None:
    people = People(8)
    async with failover_cluster(database_url, database_url, agents=0) as on:
        first, second = on.servers
        for _ in range(10):
            await people.change(on.client(first))
        polls = []
        async with followed(on.servers, on.client(first)) as follower:
            for killed, other in ((first, second), (second, first)):
                for server in (killed, other):
                    for _ in range(10):
                        await people.change(on.client(server))
                        polls.append(await poll(on.client(server)))
                await killed.kill()
                assert await on.leader(among=[other]) is other
                for _ in range(10):
                    await people.change(on.client(other))
                    polls.append(await poll(on.client(other)))
                await killed.start()
                await on.until_standing(killed, role="follower")
            await follower.told_of(await people.submit(on.client(first)))
    _compare(follower, polls)
    assert follower.connections >= 2


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresCluster]:
    with postgres_cluster() as cluster:
        yield cluster


@pytest.fixture
def database_url(postgres: PostgresCluster) -> str:
    return postgres.new_database()


def _compare(follower: Follower, polls: list[tuple[int, Queue]]) -> None:
    assert len({revision for revision, _ in polls}) > 20
    for revision, queue in polls:
        assert follower.queue_at(revision) == queue
