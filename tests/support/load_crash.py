"""Random kill -9 of servers, agents and the database during submissions, and the state afterwards."""

import asyncio
import os
import signal
import subprocess
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Final

import psutil

from aliquot.cli.acceptance.checks import live_kernels
from aliquot.cli.acceptance.cluster_view import read_cluster
from e2e_sessions import until
from failover_clients import submitting_clients
from failover_cluster import FailoverCluster, failover_cluster
from store_postgres import PostgresCluster

CLIENTS: Final = 4
AGENTS: Final = 2
AHEAD: Final = 16
"""As many wait as there are GPUs: a kill hits jobs that start, run and end, not only a queue."""
LISTED: Final = (
    "query ($after: String) { sessions(first: 100, after: $after) { edges { cursor node { id name state } } } }"
)
ENDED: Final = frozenset({"completed", "failed", "canceled"})


@dataclass(slots=True, kw_only=True)
class CrashFindings:
    """Findings as counts; all but the first three should be 0."""

    acknowledged: int = 0
    started: int = 0
    """Jobs that had started when the last kill was over."""
    kills: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    """Acknowledged sessions that are missing."""
    ids_reused: int = 0
    orphans: int = 0
    """Processes of ended sessions, and devices held without a session."""
    run_twice: int = 0
    """Jobs that were started more than once."""
    not_completed: int = 0


async def crash_rounds(url: str, *, rounds: int, seed: int, postgres: PostgresCluster | None = None) -> CrashFindings:
    """Kill one component in every round, once a few submissions were acknowledged after the last one's return.

    Args:
        url: of the database.
        postgres: the server that it is on, when it may be killed too.
    """
    random = Random(seed)
    found = CrashFindings()
    async with failover_cluster(url, agents=AGENTS) as on:
        async with submitting_clients(on, clients=CLIENTS, then="sleep 0.3", ahead=AHEAD) as submitters:
            for _ in range(rounds):
                await submitters.wait_for_more(random.randrange(4, 20))
                victim = random.choice(("server", "server", "agent", *["database"][: postgres is not None]))
                found.kills[victim] += 1
                await _kill(victim, on, postgres, random)
            found.started = on.started()
        await _take_stock(on, submitters.acknowledged, found)
    return found


async def _kill(victim: str, on: FailoverCluster, postgres: PostgresCluster | None, random: Random) -> None:
    if victim == "server":
        await on.servers[0].kill()
        await on.servers[0].start()
    elif victim == "agent":
        agent = random.choice(on.agents)
        await agent.stop(signal.SIGKILL)
        await agent.start()
    else:
        assert postgres is not None
        await asyncio.to_thread(_kill_database, postgres)


def _kill_database(postgres: PostgresCluster) -> None:
    """Kill the postmaster; its children end by themselves, and the next one waits for them."""
    postmaster = psutil.Process(postgres.pid)
    children = postmaster.children(recursive=True)
    os.kill(postmaster.pid, signal.SIGKILL)
    psutil.wait_procs([postmaster, *children], timeout=30)
    for _ in range(5):
        with suppress(subprocess.SubprocessError):
            postgres.start()
            return
    raise AssertionError("the database does not come up again")


async def _take_stock(on: FailoverCluster, acknowledged: dict[str, str], found: CrashFindings) -> None:
    listed = await _until_all_ended(on)
    found.acknowledged = len(acknowledged)
    found.lost = sum(session_id not in listed for session_id in acknowledged.values())
    found.ids_reused = len(acknowledged) - len(set(acknowledged.values()))
    found.not_completed = sum(state != "completed" for state in listed.values())
    found.run_twice = sum(on.runs(name) != 1 for name in acknowledged)
    await _until_idle(on)
    cluster = await read_cluster(on.client(on.servers[0]))
    live = [name for agent in on.agents for name in live_kernels(agent.data_folder)]
    found.orphans = len(live) + sum(amount > 0 for agent in cluster.agents for amount in agent.alloc_map.values())


async def _until_all_ended(on: FailoverCluster) -> dict[str, str]:
    """States by id, once no session is active.

    Raises:
        AssertionError: something goes on for ever; it says what.
    """
    states: dict[str, str] = {}

    async def look() -> bool:
        states.update(await _listed(on))
        return set(states.values()) <= ENDED

    try:
        await until(look)
    except TimeoutError:
        live = {session_id: state for session_id, state in states.items() if state not in ENDED}
        raise AssertionError(f"these do not end: {live}") from None
    return states


async def _listed(on: FailoverCluster) -> dict[str, str]:
    found: dict[str, str] = {}
    after = None
    while True:
        page = await on.retried(lambda client, after=after: client.execute(LISTED, {"after": after}))
        edges = page["sessions"]["edges"]
        if not edges:
            return found
        found |= {edge["node"]["id"]: edge["node"]["state"] for edge in edges}
        after = edges[-1]["cursor"]


async def _until_idle(on: FailoverCluster) -> None:
    async def is_idle() -> bool:
        return (await read_cluster(on.client(on.servers[0]))).is_idle

    with suppress(TimeoutError):  # anything still held is counted
        await until(is_idle)
