"""Linearizability: concurrent clients of three servers get answers that one order explains, under faults."""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client, GraphQLFault, Refused, ServerUnreachable
from chaos_process_faults import ProcessFaults
from failover_cluster import FailoverCluster, failover_cluster, pause_server, resume_server
from failover_proxy import PostgresProxy, postgres_proxy
from linearizability import Leases, Operation, Record, leased, linearized, submitted, versioned
from long_tests import LONG
from store_postgres import PostgresCluster
from store_replica import replicated_postgres

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(900), LONG]

CLIENTS: Final = 6
ENOUGH: Final = 60
"""Answers between faults."""
ROUNDS: Final = 3
CANCELABLE: Final = 24
ANSWERED_S_MAX: Final = 120.0
QUOTA: Final = """mutation ($input: SetQuotaInput!) { set_quota(input: $input) { __typename
  ... on QuotaChangeSuccess { quota { version } } ... on VersionConflict { actual } ... on Error { code message } } }"""
PRIORITY: Final = """mutation ($input: UpdateSessionPriorityInput!) { update_session_priority(input: $input) {
  __typename
  ... on UpdateSessionPrioritySuccess { session { version } } ... on VersionConflict { actual }
  ... on Error { code message } } }"""
CREATE: Final = """mutation ($input: CreateSessionInput!) { create_session(input: $input) { __typename
  ... on CreateSessionSuccess { session { id version } created } ... on Error { code message } } }"""
CANCEL: Final = """mutation ($input: CancelSessionInput!) { cancel_session(input: $input) { __typename
  ... on CancelSessionSuccess { session { version } } ... on VersionConflict { actual }
  ... on Error { code message } } }"""
ALLOCATE: Final = """mutation ($input: AllocateGpusInput!) { allocate_gpus(input: $input) { __typename
  ... on GpusAllocated { gpu_ids renewed } ... on NotPlaced { reason } ... on Error { code message } } }"""
RELEASE: Final = """mutation ($input: String!) { release_gpus(job_id: $input) { __typename
  ... on Error { code message } } }"""
JOBS: Final = ("x", "y", "z")
"""External allocations of three GPUs each; the agent has eight."""
LEASE_S: Final = 86_400.0
"""Longer than any clock jump."""
JUMP_S: Final = 3600

Answer = tuple[Any, ...]


@dataclass(slots=True)
class Histories:
    """Clients that change quotas, priorities and submissions at any server, and their answers."""

    on: FailoverCluster
    hooks: list[ProcessFaults]
    """The clocks of the servers."""
    draw: random.Random = field(default_factory=lambda: random.Random(5))
    sessions: list[str] = field(default_factory=list)
    quotas: dict[str, list[Operation]] = field(default_factory=lambda: defaultdict(list))
    priorities: dict[str, list[Operation]] = field(default_factory=lambda: defaultdict(list))
    cancels: dict[str, list[Operation]] = field(default_factory=lambda: defaultdict(list))
    leases: list[Operation] = field(default_factory=list)
    cancelable: list[str] = field(default_factory=list)
    keys: dict[str, list[Operation]] = field(default_factory=lambda: defaultdict(list))
    versions: dict[str, int] = field(default_factory=dict)
    """The latest that a client saw."""
    answers: int = 0
    values: int = 0

    async def act_for_ever(self) -> None:
        while True:
            acts = (self._set_quota, self._set_priority, self._submit, self._cancel, self._allocate, self._release)
            act = self.draw.choice(acts)
            await act(self.on.client(self.draw.choice(self.on.servers)))
            await asyncio.sleep(0.01)

    async def until_more(self, count: int) -> None:
        """Wait until clients got this many more answers."""
        wanted = self.answers + count
        async with asyncio.timeout(ANSWERED_S_MAX):
            while self.answers < wanted:  # noqa: ASYNC110  # counted by the clients
                await asyncio.sleep(0.05)

    async def until_full(self) -> None:
        """Wait until an allocation has found too few GPUs, which is rare among few answers."""
        async with asyncio.timeout(ANSWERED_S_MAX):
            while all(one.answer != ("full",) for one in self.leases):  # noqa: ASYNC110  # answered to the clients
                await asyncio.sleep(0.05)

    async def _set_quota(self, client: Client) -> None:
        name, expected = self.draw.choice(("ann", "bob")), None
        if self.draw.random() < 0.6:
            expected = self.versions.get(name, 0)
        self.values += 1
        value = self.values
        wanted = {"scope": "USER", "name": name, "max_queued": value, "expected_version": expected}
        await self._ask(client, QUOTA, wanted, self.quotas[name], ("set", value, expected), name)

    async def _set_priority(self, client: Client) -> None:
        session_id, expected = self.draw.choice(self.sessions), None
        if self.draw.random() < 0.6:
            expected = self.versions[session_id]
        value = self.draw.choice(("LOW", "NORMAL", "HIGH"))
        wanted = {"id": session_id, "priority": value, "expected_version": expected}
        asked = ("set", value, expected)
        await self._ask(client, PRIORITY, wanted, self.priorities[session_id], asked, session_id)

    async def _submit(self, client: Client) -> None:
        key = f"key-{self.draw.randrange(self.values // 10 + 1)}"
        wanted = {
            "command": {"argv": ["true"]},
            "slots": [{"slot": "cuda.device", "amount": "1"}],
            "held": True,
            "idempotency_key": key,
        }
        await self._ask(client, CREATE, wanted, self.keys[key], ("submit",), key)

    async def _cancel(self, client: Client) -> None:
        session_id, expected = self.draw.choice(self.cancelable), None
        if self.draw.random() < 0.6:
            expected = self.versions[session_id]
        wanted = {"id": session_id, "expected_version": expected}
        await self._ask(client, CANCEL, wanted, self.cancels[session_id], ("set", "CANCELED", expected), session_id)

    async def _allocate(self, client: Client) -> None:
        job = self.draw.choice(JOBS)
        wanted = {"job_id": job, "gpu_count": 3.0, "lease": LEASE_S}
        await self._ask(client, ALLOCATE, wanted, self.leases, ("allocate", job), job)

    async def _release(self, client: Client) -> None:
        job = self.draw.choice(JOBS)
        await self._ask(client, RELEASE, job, self.leases, ("release", job), job)

    async def _ask(
        self, client: Client, query: str, wanted: Any, history: list[Operation], asked: Answer, name: str
    ) -> None:
        began = time.monotonic()
        try:
            (found,) = (await client.execute(query, {"input": wanted})).values()
        except ServerUnreachable as error:
            if isinstance(error.__cause__, httpx.ConnectError):
                return  # not sent
            found = {"__typename": "Unavailable"}
        except GraphQLFault:
            found = {"__typename": "Unavailable"}
        if found["__typename"] == "NotPlaced" and found["reason"] != "insufficient":
            return  # the agent is not back yet: nothing changed
        answer = self._answer(found, name, asked[0])
        if answer is None:
            history.append(Operation(began=began, asked=asked))
        else:
            self.answers += 1
            history.append(Operation(began=began, ended=time.monotonic(), asked=asked, answer=answer))

    def _answer(self, found: dict[str, Any], name: str, asked: str) -> Answer | None:
        """An answer in the models' form; None when the change may or may not have been made."""
        match found["__typename"]:
            case "CreateSessionSuccess":
                return "ok", found["session"]["id"], found["created"]
            case "GpusAllocated" if asked == "release":
                return ("ok",)
            case "GpusAllocated":
                return "ok", frozenset(found["gpu_ids"]), found["renewed"]
            case "NotPlaced":
                return ("full",)
            case "NotFound" if asked == "release":
                return ("unknown",)
            case "UpdateSessionPrioritySuccess" | "CancelSessionSuccess":
                self.versions[name] = found["session"]["version"]
                return "ok", self.versions[name]
            case "QuotaChangeSuccess":
                self.versions[name] = found["quota"]["version"]
                return "ok", self.versions[name]
            case "VersionConflict":
                self.versions[name] = found["actual"]
                return "conflict", found["actual"]
            case "Unavailable":
                return None
        raise Refused(found)

    def check(self, started: dict[str, Record]) -> None:
        """Check that each object's history is linearizable."""
        for name, history in self.quotas.items():
            assert linearized(history, (0, None), versioned) is not None, (name, history)
        for name, history in self.priorities.items():
            assert linearized(history, started[name], versioned) is not None, (name, history)
        for name, history in self.cancels.items():
            assert linearized(history, started[name], versioned) is not None, (name, history)
        assert {one.answer[0] for one in self.leases if one.answer} >= {"ok", "full"}
        nothing: Leases = frozenset()
        assert linearized(self.leases, nothing, leased) is not None, self.leases
        for key, history in self.keys.items():
            assert linearized(history, None, submitted) is not None, (key, history)
        ids = [one.answer[1] for history in self.keys.values() for one in history if one.answer and one.answer[2]]
        assert len(ids) == len(set(ids))


@asynccontextmanager
async def histories(urls: Sequence[str], folder: Path) -> AsyncIterator[Histories]:
    """Three servers with clients, each with its own database URL; checked at the end."""
    async with AsyncExitStack() as stack:
        hooks = [ProcessFaults(folder / str(number)) for number in range(3)]
        for one in hooks:
            one.folder.mkdir()
        own = [one.environment for one in hooks]
        on = await stack.enter_async_context(failover_cluster(*urls, agents=1, own=own))
        lived, started = Histories(on, hooks), dict[str, Record]()
        for number in range(3 + CANCELABLE):
            wanted = {"command": {"argv": ["true"]}, "slots": [{"slot": "cuda.device", "amount": "1"}], "held": True}
            made = (await on.client(on.servers[0]).change(CREATE, {"input": wanted}))["session"]
            (lived.sessions if number < 3 else lived.cancelable).append(made["id"])
            lived.versions[made["id"]] = made["version"]
            started[made["id"]] = made["version"], "NORMAL" if number < 3 else "HELD"
        tasks = [asyncio.create_task(lived.act_for_ever()) for _ in range(CLIENTS)]
        try:
            await lived.until_more(ENOUGH)
            yield lived
            await lived.until_more(ENOUGH)
            await lived.until_full()
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert [end for end in ends if not isinstance(end, asyncio.CancelledError)] == []
        lived.check(started)


async def kill(lived: Histories, leader: OwnServer, proxy: PostgresProxy) -> None:
    await leader.kill()
    await lived.until_more(ENOUGH)
    await leader.start()


async def pause(lived: Histories, leader: OwnServer, proxy: PostgresProxy) -> None:
    pause_server(leader)
    await lived.on.leader(among=[server for server in lived.on.servers if server is not leader])
    resume_server(leader)
    await lived.until_more(ENOUGH)


async def cut(lived: Histories, leader: OwnServer, proxy: PostgresProxy) -> None:
    proxy.wire.cut()
    await lived.until_more(ENOUGH)
    proxy.wire.resume()


async def stall(lived: Histories, leader: OwnServer, proxy: PostgresProxy) -> None:
    proxy.wire.stall()
    await lived.on.leader(among=[server for server in lived.on.servers if server is not leader])
    proxy.wire.resume()
    await lived.until_more(ENOUGH)


async def jump(lived: Histories, leader: OwnServer, proxy: PostgresProxy) -> None:
    hooks = lived.hooks[lived.on.servers.index(leader)]
    for shift_s in (JUMP_S, -JUMP_S, 0):
        hooks.set_clock(shift_s)
        await lived.until_more(ENOUGH // 2)


Blow = Callable[[Histories, OwnServer, PostgresProxy], Awaitable[None]]


@pytest.mark.parametrize("blow", [kill, pause, cut, stall, jump])
async def test_the_answers_to_concurrent_clients_are_linearizable(
    postgres: PostgresCluster, database_url: str, tmp_path: Path, blow: Blow
) -> None:
    async with AsyncExitStack() as stack:
        proxies = [await stack.enter_async_context(postgres_proxy(postgres, database_url)) for _ in range(3)]
        lived = await stack.enter_async_context(histories([proxy.url for proxy in proxies], tmp_path))
        for _ in range(ROUNDS):
            leader = await lived.on.leader()
            await blow(lived, leader, proxies[lived.on.servers.index(leader)])
            await lived.until_more(ENOUGH)


async def test_the_answers_are_linearizable_when_a_replica_replaces_the_database(tmp_path: Path) -> None:
    with replicated_postgres() as pair:
        database = await asyncio.to_thread(pair.primary.new_database)
        await pair.start(synchronous=True)
        async with histories([pair.url(database)] * 3, tmp_path) as lived:
            await pair.take_over()
            await lived.until_more(ENOUGH)
