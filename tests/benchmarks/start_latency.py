"""Time from submission to the job's first line, and of one CLI call, on an idle cluster."""

import json
import os
import subprocess
import sys
import time
from statistics import median

from cluster import cluster, creation, occupy, submit, until_count
from http_load import Connection
from registry import Key, scenario

from aliquot.cli.acceptance.processes import OwnServer

ROUNDS = 30
PRINT_TIME = ["date", "+%s%N"]
FIRST_LINE = "subscription ($id: ID!) { session_logs(id: $id) { text at_end } }"


@scenario(Key(name="start_latency_p50_s", what="submit -> first line of the job, idle cluster", reach="<= 0.050"))
async def start_latency() -> dict[str, float]:
    """The job prints its start time; both times are of this machine's clock."""
    took = []
    async with cluster() as server, Connection(server.port, server.token) as connection, server.client() as client:
        for number in range(ROUNDS):
            run = f"latency-{number}"
            began_ns = time.time_ns()
            answer = json.loads(await connection.post(creation(argv=PRINT_TIME, run=run)))
            session_id = answer["data"]["create_session"]["session"]["id"]
            text = ""
            async for data in client.subscribe(FIRST_LINE, {"id": session_id}):
                text += data["session_logs"]["text"]
            took.append((int(text) - began_ns) / 1e9)
            await until_count(connection, 1, run=run, states=["completed"])
    return {"start_latency_p50_s": median(took)}


CALLS = (
    ["session", "list"],
    ["queue"],
    ["gpus"],
    ["agents", "list"],
    ["why", "waiting"],
    ["when", "waiting"],
    ["session", "stats", "waiting"],
)


@scenario(
    Key(name="cli_start_s", what="one call of the command line, the slowest of seven, by the clock", reach="<= 0.25"),
    Key(name="cli_start_cpu_s", what="the same, CPU time of the call", reach="<= 0.25"),
)
async def cli_start() -> dict[str, float]:
    """The median of each command, and the longest of these; output goes into a pipe."""
    async with cluster() as server:
        await occupy(server)
        await submit(server, [creation(argv=["true"], run="waiting", name="waiting")], clients=1)
        took = [[_took_s(server, call) for _ in range(ROUNDS // 3)] for call in CALLS]
    by_call = list(zip(CALLS, ([median(one) for one in zip(*each, strict=True)] for each in took), strict=True))
    for call, (clock_s, cpu_s) in by_call:
        print(f"{' '.join(call):<22} {clock_s:.3f} s, {cpu_s:.3f} s of CPU", file=sys.stderr)
    return {
        "cli_start_s": max(clock_s for _, (clock_s, _) in by_call),
        "cli_start_cpu_s": max(cpu_s for _, (_, cpu_s) in by_call),
    }


def _took_s(server: OwnServer, call: list[str]) -> tuple[float, float]:
    """Wall-clock and CPU seconds of one call."""
    command = [
        sys.executable,
        "-m",
        "aliquot",
        *call,
        "--server",
        server.url,
        "--token-file",
        str(server.data_folder / "token"),
    ]
    before, began = os.times(), time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    after, took_s = os.times(), time.monotonic() - began
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return took_s, used
