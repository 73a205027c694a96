"""Deltas: a snapshot or a read, plus the updates since, always equals a fresh read.

This holds for the queue, sessions with their kernels, all devices, and the event log.
"""

import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client, Refused, ServerUnreachable
from api_deltas import Follower, Queue, poll
from api_live import (
    DEVICES_FOLLOW,
    EVENTS_FOLLOW,
    SESSION_FOLLOW,
    Devices,
    LiveFollower,
    audit_entries,
    devices_after,
    poll_devices,
    poll_session,
    running_followers,
    session_at,
)
from failover_cluster import failover_cluster
from long_tests import LONG
from store_postgres import PostgresCluster, postgres_cluster

pytestmark = pytest.mark.anyio

CREATE: Final = """mutation ($input: CreateSessionInput!) { create_session(input: $input) {
  __typename ... on CreateSessionSuccess { session { id } } } }"""
ACCELERATORS: Final = Path(__file__).parents[1] / "data" / "accelerators" / "two_gpus.toml"
FOLLOWED: Final = 5
"""Sessions followed individually."""
CHANGES: Final = {
    "hold_session": "ChangeSessionInput",
    "release_session": "ChangeSessionInput",
    "retry_session": "ChangeSessionInput",
    "cancel_session": "CancelSessionInput",
}
PRIORITY: Final = (
    "mutation ($input: UpdateSessionPriorityInput!) { update_session_priority(input: $input) { __typename } }"
)


class Submissions:
    """Random changes: submit, hold, release, cancel, retry, reorder."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.known: list[str] = []

    async def change(self, client: Client) -> None:
        """Make one change; an unreachable server is ignored."""
        with suppress(ServerUnreachable, Refused):
            await self._change(client)

    async def submit(self, client: Client) -> str:
        """Submit a session, and return its id."""
        wanted: dict[str, Any] = {"command": {"shell": "sleep 0.2"}, "name": f"job {self._chance.randint(0, 99)}"}
        wanted["slots"] = [{"slot": "cuda.shares", "amount": self._chance.choice(["0.3", "0.6", "1"])}]
        answer = (await client.execute(CREATE, {"input": wanted}))["create_session"]
        self.known.append(answer["session"]["id"])
        return self.known[-1]

    async def _change(self, client: Client) -> None:
        if len(self.known) < 3 or self._chance.random() < 0.3:
            await self.submit(client)
            return
        chosen = self._chance.choice(self.known)
        name = self._chance.choice([*CHANGES, "priority"])
        if name == "priority":
            priority = self._chance.choice(["low", "normal", "high", "critical"])
            await client.execute(PRIORITY, {"input": {"id": chosen, "priority": priority}})
            return
        query = f"mutation ($input: {CHANGES[name]}!) {{ {name}(input: $input) {{ __typename }} }}"
        await client.execute(query, {"input": {"id": chosen}})


@dataclass(slots=True)
class Following:
    """All subscriptions of a test, and the reads meanwhile."""

    queue: Follower
    sessions: dict[str, LiveFollower]
    devices: LiveFollower
    events: LiveFollower
    queues: list[tuple[int, Queue]] = field(default_factory=list)
    session_polls: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    device_polls: list[tuple[int, Devices]] = field(default_factory=list)

    async def poll(self, client: Client) -> None:
        """Read everything."""
        self.queues.append(await poll(client))
        for session_id in self.sessions:
            self.session_polls.append(await poll_session(client, session_id))
        self.device_polls.append(await poll_devices(client))

    async def until_told(self, people: Submissions, client: Client) -> None:
        """Wait until all changes were received."""
        last = await people.submit(client)
        await self.queue.wait_for_session(last)
        await self.events.wait_for_updates(lambda told: any(event["entity_id"] == last for event in told))
        for session_id, follower in self.sessions.items():
            _, session = await poll_session(client, session_id)
            await follower.wait_for_updates(lambda told, of=session: told[-1]["session"]["version"] >= of["version"])
        while True:
            count, (_, devices) = len(self.devices.updates), await poll_devices(client)
            if devices_after(self.devices.updates) == devices:
                break
            await self.devices.wait_for_updates(lambda told, count=count: len(told) > count)

    async def compare(self, client: Client) -> None:
        """Compare updates with reads."""
        assert len({revision for revision, _ in self.queues}) > 20
        for revision, queue in self.queues:
            assert self.queue.queue_at(revision) == queue
        for revision, session in self.session_polls:
            assert session_at(self.sessions[session["id"]].updates, revision) == session, revision
        told = [update["revision"] for update in self.devices.updates]
        at_once = [(revision, devices) for revision, devices in self.device_polls if revision in told]
        assert at_once, "nothing was read when something was told"
        for revision, devices in at_once:
            upto = len(told) - told[::-1].index(revision)
            assert devices_after(self.devices.updates[:upto]) == devices, revision
        await self._compare_events(client)

    async def _compare_events(self, client: Client) -> None:
        told = list(self.events.updates)  # sessions run on, and more updates come during the read
        numbers = [event["number"] for event in told]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        record = {change["number"]: change for change in await audit_entries(client)}
        assert [record[number] for number in numbers if number in record] == [
            event for event in told if event["number"] in record
        ]
        assert len(record.keys() & set(numbers)) > 20


@asynccontextmanager
async def followed(servers: list[OwnServer], client: Client, people: Submissions) -> AsyncIterator[Following]:
    revision, queue = await poll(client)
    following = Following(
        queue=Follower(servers, revision=revision, queue=queue),
        sessions={name: LiveFollower(servers, SESSION_FOLLOW, id=name) for name in people.known[-FOLLOWED:]},
        devices=LiveFollower(servers, DEVICES_FOLLOW),
        events=LiveFollower(servers, EVENTS_FOLLOW, after=revision),
    )
    live = [*following.sessions.values(), following.devices, following.events]
    async with running_followers(following.queue, *live):
        for follower in (*following.sessions.values(), following.devices):
            await follower.wait_for_updates(lambda told: told)
        yield following


@LONG
async def test_a_snapshot_with_deltas_equals_a_poll_across_restarts() -> None:
    people = Submissions(7)
    options = ("--accelerators", str(ACCELERATORS), "--log-level=warning")
    async with OwnServer(*options) as server, server.client() as client:
        for _ in range(10):
            await people.change(client)
        async with followed([server], client, people) as following:
            for end in (server.kill, server.stop, None):
                for _ in range(25):
                    await people.change(client)
                    await following.poll(client)
                if end is not None:
                    await end()
                    await server.start()
            await following.until_told(people, client)
            await following.compare(client)
    assert following.queue.connections >= 3
    assert following.devices.connections >= 3


@pytest.mark.slow
async def test_a_snapshot_with_deltas_equals_a_poll_across_leader_changes(database_url: str) -> None:
    people = Submissions(8)
    async with failover_cluster(database_url, database_url, agents=0) as on:
        first, second = on.servers
        for _ in range(10):
            await people.change(on.client(first))
        async with followed(on.servers, on.client(first), people) as following:
            for killed, other in ((first, second), (second, first)):
                for server in (killed, other):
                    for _ in range(10):
                        await people.change(on.client(server))
                        await following.poll(on.client(server))
                await killed.kill()
                assert await on.leader(among=[other]) is other
                for _ in range(10):
                    await people.change(on.client(other))
                    await following.poll(on.client(other))
                await killed.start()
                await on.wait_for_standing(killed, role="follower")
            await following.until_told(people, on.client(first))
            await following.compare(on.client(first))
    assert following.queue.connections >= 2
    assert following.events.connections >= 2


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresCluster]:
    with postgres_cluster() as cluster:
        yield cluster


@pytest.fixture
def database_url(postgres: PostgresCluster) -> str:
    return postgres.new_database()
