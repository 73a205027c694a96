"""Durable submissions over HTTP, to a cluster whose GPUs are all held, on SQLite and on PostgreSQL."""

import sys
import time

import psutil
from cluster import batch, cluster, creation, occupy, percentile, submit
from http_load import Connection, request
from machine import fsync_p50_s
from postgresql import as_twins, cluster_on_postgresql
from registry import Key, scenario

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.acceptance.run import CREATE

ALONE = 1000
TOGETHER = 4000
CLIENTS = 64
TASKS = 2000
ARRAYS = 20
BATCH = 1000
BATCHES = 10


@scenario(
    Key(name="submit_per_s_1", what="durable submissions, one client", reach=">= 300"),
    Key(name="submit_per_s_64", what="durable submissions, 64 clients", reach=">= 1000"),
    Key(name="submit_p99_s", what="p99 of one: the worse of one client and 64", reach="<= 0.1"),
    Key(name="submit_array_2000_s", what="an array of 2,000 tasks: acknowledged, median", reach="<= 0.010"),
    Key(name="submit_batch_per_s", what="durable submissions in batches of 1,000, one client", reach=">= 20000"),
)
async def submissions() -> dict[str, float]:
    """Each is acknowledged after its commit."""
    async with cluster() as server:
        return await _measured(server)


@scenario(
    Key(name="submit_per_s_1_pg", what="durable submissions on PostgreSQL, one client", reach=">= 250"),
    Key(name="submit_per_s_64_pg", what="durable submissions on PostgreSQL, 64 clients", reach=">= 600"),
    Key(name="submit_p99_s_pg", what="p99 of one on PostgreSQL: the worse of one client and 64", reach="<= 0.1"),
    Key(
        name="submit_array_2000_s_pg",
        what="an array of 2,000 tasks on PostgreSQL: acknowledged, median",
        reach="<= 0.010",
    ),
    Key(name="submit_batch_per_s_pg", what="the same in batches of 1,000, one client", reach=">= 15000"),
)
async def submissions_on_postgresql() -> dict[str, float]:
    """As above."""
    async with cluster_on_postgresql() as server:
        return as_twins(await _measured(server))


async def _measured(server: OwnServer) -> dict[str, float]:
    await occupy(server)
    alone, rate_alone = await _timed(server, count=ALONE, clients=1)
    together, rate_together = await _timed(server, count=TOGETHER, clients=CLIENTS)
    return {
        "submit_per_s_1": rate_alone,
        "submit_per_s_64": rate_together,
        "submit_p99_s": max(percentile(alone, 0.99), percentile(together, 0.99)),
        "submit_array_2000_s": await _array_s(server),
        "submit_batch_per_s": await _batch_per_s(server),
    }


async def _timed(server: OwnServer, *, count: int, clients: int) -> tuple[list[float], float]:
    bodies = [creation(argv=["true"], run="submissions", name=f"job {number}") for number in range(count)]
    process = psutil.Process(server.pid)
    fsync_s, cpu_s, began = fsync_p50_s(), _cpu_s(process), time.perf_counter()
    took = await submit(server, bodies, clients=clients)
    taken_s = time.perf_counter() - began
    each_us = (_cpu_s(process) - cpu_s) / count * 1e6
    told = f"{clients} clients: {each_us:.0f} us of the server's CPU each, fsync p50 {fsync_s * 1e3:.2f} ms"
    print(told, file=sys.stderr, flush=True)
    return took, count / taken_s


async def _array_s(server: OwnServer) -> float:
    slots = [{"slot": "cuda.device", "amount": "1"}]
    array = {"command": {"argv": ["true"]}, "slots": slots, "array": f"0-{TASKS - 1}"}
    body, took = request(CREATE, {"input": array}), []
    async with Connection(server.port, server.token) as connection:
        for _ in range(ARRAYS):
            began = time.perf_counter()
            answer = await connection.post(body)
            took.append(time.perf_counter() - began)
            assert b"CreateSessionSuccess" in answer, answer[:500]
    return percentile(took, 0.5)


async def _batch_per_s(server: OwnServer) -> float:
    bodies = [batch(run="batch", first=number * BATCH, count=BATCH) for number in range(BATCHES)]
    took_s = await submit(server, bodies, clients=1)
    return BATCHES * BATCH / sum(took_s)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
