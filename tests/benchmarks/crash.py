"""kill -9 of servers, agents and databases while sessions are submitted and run: nothing may be lost or left over."""

import asyncio
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cluster import WAIT_S_MAX, cluster, creation
from http_load import Connection
from registry import Key, scenario

from aliquot.cli.acceptance.checks import MapCheck
from aliquot.cli.acceptance.processes import OwnServer

sys.path.append(str(Path(__file__).parents[1] / "support"))

from load_crash import CrashFindings, crash_rounds  # the path is set above
from store_postgres import postgres_cluster

ROUNDS: Final = int(os.environ.get("ALIQUOT_CRASH_ROUNDS", "25"))
"""On each database."""
CRASHES = 3
CLIENTS = 16
ACKNOWLEDGED = 200
"""Per crash, before the kill."""

PAGE = """
query ($run: String!, $after: String) {
  sessions(filter: { run_id: $run }, first: 100, after: $after) {
    pageInfo { hasNextPage endCursor }
    edges { node { id name } }
  }
}
"""


@scenario(
    Key(name="crash_lost", what="acknowledged sessions missing after kill -9", reach="= 0"),
    Key(name="crash_id_reused", what="ids given to two sessions", reach="= 0"),
    Key(name="crash_orphans", what="processes running without devices, or held devices without a process", reach="= 0"),
    Key(name="crash_run_twice", what="jobs that were started more than once", reach="= 0"),
    Key(name="crash_not_completed", what="jobs that did not come to their good end in spite of it", reach="= 0"),
)
async def crash() -> dict[str, float]:
    """First a server alone under the fastest submissions, then every component in turn, on SQLite and PostgreSQL."""
    rounds = [await _on_sqlite(), await _on_postgresql()]
    alone = await server_alone()
    return {
        "crash_lost": alone["crash_lost"] + sum(found.lost for found in rounds),
        "crash_id_reused": alone["crash_id_reused"] + sum(found.ids_reused for found in rounds),
        "crash_orphans": alone["crash_orphans"] + sum(found.orphans for found in rounds),
        "crash_run_twice": sum(found.run_twice for found in rounds),
        "crash_not_completed": sum(found.not_completed for found in rounds),
    }


async def _on_sqlite() -> CrashFindings:
    with TemporaryDirectory(prefix="aliquot-crash-") as folder:
        return _told(await crash_rounds(f"sqlite:///{folder}/crash.db", rounds=ROUNDS, seed=1))


async def _on_postgresql() -> CrashFindings:
    with postgres_cluster() as postgres:
        url = await asyncio.to_thread(postgres.new_database)
        return _told(await crash_rounds(url, rounds=ROUNDS, seed=2, postgres=postgres))


def _told(found: CrashFindings) -> CrashFindings:
    print(f"{ROUNDS} rounds: {found}", file=sys.stderr, flush=True)
    return found


async def server_alone() -> dict[str, int]:
    """Sessions end by themselves after a while: some start, run and end around each crash."""
    acknowledged: list[tuple[str, str]] = []
    async with cluster() as server:
        for number in range(CRASHES):
            acknowledged += await _crash_while_submitting(server, number)
            await server.start()
        async with server.client() as client, Connection(server.port, server.token) as connection:
            kept = [pair for number in range(CRASHES) for pair in await _sessions(connection, _run(number))]
            check = MapCheck(client=client, data_folder=server.data_folder)
            await check.compare()
            orphans = len(check.differences)
    ids = [session_id for session_id, _ in acknowledged]
    names = dict(kept)
    reused = len(ids) - len(set(ids)) + sum(names.get(session_id, name) != name for session_id, name in acknowledged)
    return {
        "crash_lost": sum(session_id not in names for session_id in ids),
        "crash_id_reused": reused,
        "crash_orphans": orphans,
        "crash_acknowledged": len(ids),
    }


async def _crash_while_submitting(server: OwnServer, number: int) -> list[tuple[str, str]]:
    """(id, name) of every session that was acknowledged before the server was killed."""
    acknowledged: list[tuple[str, str]] = []
    enough = asyncio.Event()

    async def work(client: int) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            async with Connection(server.port, server.token) as connection:
                for count in range(10**6):
                    name = f"{number}-{client}-{count}"
                    answer = await connection.post(creation(argv=["sleep", "2"], run=_run(number), name=name))
                    acknowledged.append((json.loads(answer)["data"]["create_session"]["session"]["id"], name))
                    if len(acknowledged) >= ACKNOWLEDGED:
                        enough.set()

    async with asyncio.timeout(WAIT_S_MAX), asyncio.TaskGroup() as group:
        for client in range(CLIENTS):
            group.create_task(work(client))
        await enough.wait()
        await server.kill()
    return acknowledged


async def _sessions(connection: Connection, run: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    after = None
    while True:
        page = (await connection.ask(PAGE, {"run": run, "after": after}))["sessions"]
        found += [(edge["node"]["id"], edge["node"]["name"]) for edge in page["edges"]]
        if not page["pageInfo"]["hasNextPage"]:
            return found
        after = page["pageInfo"]["endCursor"]


def _run(number: int) -> str:
    return f"crash-{number}"
