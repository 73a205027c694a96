"""The measured server: 64 mock GPUs on eight agents, the local executor, all files in a temporary folder."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from http_load import Connection, request

from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.acceptance.run import CREATE

AGENTS: Final = 8
GPUS: Final = 8
WAIT_S_MAX: Final = 300.0
POLL_S: Final = 0.02

COUNT: Final = """
query ($run: String!, $states: [SessionState!]) {
  sessions(filter: { run_id: $run, states: $states }, first: 1) { total_count }
}
"""


CREATE_BATCH: Final = """
mutation ($input: CreateSessionsInput!) {
  create_sessions(input: $input) { __typename ... on CreateSessionsSuccess { results { session { id } } } }
}
"""


@asynccontextmanager
async def cluster(*, database: str | None = None) -> AsyncIterator[OwnServer]:
    """A server with nothing in its queue.

    Args:
        database: its URL; None = SQLite in the server's folder.
    """
    with TemporaryDirectory(prefix="aliquot-bench-") as folder:
        options = [f"--accelerators={_agent_file(Path(folder), number)}" for number in range(AGENTS)]
        options += [] if database is None else [f"--database={database}"]
        async with OwnServer(*options, "--log-level=warning") as server:
            async with server.client() as client:
                await until_joined(client, agents=AGENTS)
            yield server


def creation(*, argv: list[str], run: str, gpus: int = 1, name: str | None = None) -> bytes:
    """The body of a request for a session of whole devices."""
    return request(CREATE, {"input": _wanted(argv=argv, run=run, gpus=gpus, name=name)})


def batch(*, run: str, first: int, count: int) -> bytes:
    """The body of one request for this many sessions of one device each, numbered from `first`."""
    numbers = range(first, first + count)
    wanted = [_wanted(argv=["true"], run=run, gpus=1, name=f"job {number}") for number in numbers]
    return request(CREATE_BATCH, {"input": {"sessions": wanted}})


def _wanted(*, argv: list[str], run: str, gpus: int, name: str | None) -> dict[str, Any]:
    slots = [{"slot": "cuda.device", "amount": str(gpus)}]
    return {"command": {"argv": argv}, "slots": slots, "run_id": run, "name": name}


async def submit(server: OwnServer, bodies: Iterable[bytes], *, clients: int) -> list[float]:
    """Post all bodies over this number of connections; returns the seconds until each was acknowledged."""
    waiting = iter(bodies)
    took: list[float] = []

    async def work() -> None:
        async with Connection(server.port, server.token) as connection:
            for body in waiting:
                began = time.perf_counter()
                answer = await connection.post(body)
                took.append(time.perf_counter() - began)
                assert b"Success" in answer, answer[:500]

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(work())
    return took


async def count(connection: Connection, *, run: str, states: list[str] | None = None) -> int:
    """The number of a run's sessions in one of the states."""
    data = await connection.ask(COUNT, {"run": run, "states": states})
    total: int = data["sessions"]["total_count"]
    return total


async def until_count(connection: Connection, at_least: int, *, run: str, states: list[str]) -> None:
    """Wait until this many sessions of a run are in one of the states."""
    async with asyncio.timeout(WAIT_S_MAX):
        while True:
            if await count(connection, run=run, states=states) >= at_least:
                return
            await asyncio.sleep(POLL_S)


async def occupy(server: OwnServer) -> None:
    """Give every GPU to a session that never ends by itself."""
    bodies = [creation(argv=["sleep", "3600"], run="occupy") for _ in range(AGENTS * GPUS)]
    await submit(server, bodies, clients=8)
    async with Connection(server.port, server.token) as connection:
        await until_count(connection, AGENTS * GPUS, run="occupy", states=["running"])


def percentile(values: list[float], part: float) -> float:
    """The percentile of the values, by nearest rank."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def _agent_file(folder: Path, number: int) -> Path:
    devices = ",\n".join(
        f'  {{ mother_uuid = "be9c0000-{number:04x}-4000-8000-{index:012x}", model_name = "Mock", numa_node = '
        f'{index * 2 // GPUS}, subproc_count = 132, memory_size = "80g", is_mig_device = false }}'
        for index in range(GPUS)
    )
    path = folder / f"bench-{number}.toml"
    path.write_text(
        f'slot_name = "cuda"\ndevice_plugin_name = "CUDADevice"\ndevices = [\n{devices},\n]\n', encoding="utf-8"
    )
    return path
