"""Sessions on a Ray cluster of two nodes with eight mock GPUs each, on this machine."""

import asyncio
import json
import os
import signal
import time
from statistics import median

from cluster import creation, submit, until_count
from http_load import Connection, request
from registry import Key, scenario

from aliquot.cli.acceptance.cluster import own_cluster
from aliquot.cli.acceptance.cluster_view import read_cluster
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.acceptance.run import CREATE
from aliquot.client import Client

ROUNDS = 30
GANGS = 7
SESSIONS = 300
CLIENTS = 8
PRINT_TIME = ["date", "+%s%N"]
OUTPUT = "subscription ($id: ID!, $rank: Int!) { session_logs(id: $id, rank: $rank) { text at_end } }"
STATES = "query { agents(first: 10, filter: { states: [alive] }) { edges { node { id } } } }"


@scenario(
    Key(name="ray_start_p50_s", what="submit -> process, idle Ray cluster", reach="<= 0.050"),
    Key(name="ray_gang16_s", what="submit -> the last of 16 processes on two nodes", reach="<= 0.7"),
    Key(name="ray_jobs_per_s", what="`true` sessions started and finished on 16 mock GPUs", reach=">= 30"),
    Key(name="ray_node_lost_s", what="a raylet is killed -> its agent is given nothing more", reach="<= 5"),
)
async def on_ray() -> dict[str, float]:
    """Every job prints its start time; all times are of this machine's clock."""
    async with own_cluster(agents=0, ray=True) as server:
        starts = [await _seconds_to_run(server, run=f"start-{n}", ranks=1) for n in range(ROUNDS)]
        gangs = [await _seconds_to_run(server, run=f"gang-{n}", ranks=16) for n in range(GANGS)]
        return {
            "ray_start_p50_s": median(starts),
            "ray_gang16_s": median(gangs),
            "ray_jobs_per_s": await _jobs_per_s(server),
            "ray_node_lost_s": await _seconds_to_notice(server),
        }


async def _seconds_to_run(server: OwnServer, *, run: str, ranks: int) -> float:
    async with Connection(server.port, server.token) as connection:
        began_ns = time.time_ns()
        answer = json.loads(await connection.post(_creation(run=run, ranks=ranks)))
        await until_count(connection, 1, run=run, states=["completed"])
    session_id = answer["data"]["create_session"]["session"]["id"]
    async with server.client() as client:
        printed = [await _output(client, session_id, rank=rank) for rank in range(ranks)]
    return (max(map(int, printed)) - began_ns) / 1e9


async def _output(client: Client, session_id: str, *, rank: int) -> str:
    text = ""
    async for data in client.subscribe(OUTPUT, {"id": session_id, "rank": rank}):
        text += data["session_logs"]["text"]
    return text


async def _jobs_per_s(server: OwnServer) -> float:
    bodies = [creation(argv=["true"], run="throughput") for _ in range(SESSIONS)]
    began = time.perf_counter()
    await submit(server, bodies, clients=CLIENTS)
    async with Connection(server.port, server.token) as connection:
        await until_count(connection, SESSIONS, run="throughput", states=["completed"])
    return SESSIONS / (time.perf_counter() - began)


async def _seconds_to_notice(server: OwnServer) -> float:
    async with server.client() as client:
        agents = {agent.id for agent in (await read_cluster(client)).agents}
        victim = _raylets(str(server.folder))[-1]
        began = time.perf_counter()
        os.kill(victim, signal.SIGKILL)
        while True:
            alive = (await client.execute(STATES))["agents"]["edges"]
            if {edge["node"]["id"] for edge in alive} < agents:
                return time.perf_counter() - began
            await asyncio.sleep(0.01)


def _creation(*, run: str, ranks: int) -> bytes:
    wanted = {
        "command": {"argv": PRINT_TIME},
        "slots": [{"slot": "cuda.device", "amount": "1"}],
        "cluster_size": ranks,
        "run_id": run,
    }
    return request(CREATE, {"input": wanted})


def _raylets(folder: str) -> list[int]:
    """Those of the nodes with agents whose data is in the folder."""
    needle = f"ALIQUOT_RAY_NODE={folder}".encode()
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as line, open(f"/proc/{pid}/environ", "rb") as variables:
                if b"raylet/raylet" in line.read().split(b"\0")[0] and needle in variables.read():
                    found.append(int(pid))
        except OSError:
            continue
    return found
