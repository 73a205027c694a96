"""A server with 64 mock GPUs, 128 halves of which really run something, and people who change their minds meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

from aliquot.cli.main_job.cluster_view import until_joined
from aliquot.cli.main_job.own_server import OwnServer
from aliquot.cli.main_job.queries import CANCEL
from aliquot.client import Client, Refused
from aliquot.store.sqlite import connect_reader
from e2e_sessions import submit
from simulation_truth import Truth

AGENTS: Final = 8
GPUS: Final = 8
USERS: Final = 50
WAIT_S_MAX: Final = 400.0
URGE: Final = """
mutation ($id: ID!, $priority: Priority!) {
  update_session_priority(input: { id: $id, priority: $priority }) { __typename ... on Error { code message } }
}
"""


@asynccontextmanager
async def load_server(folder: Path) -> AsyncIterator[OwnServer]:
    """64 GPUs on eight agents, in the server's own process."""
    options = [f"--accelerators={_device_file(folder, number)}" for number in range(AGENTS)]
    async with OwnServer(*options, "--log-level=warning") as server, server.client() as client:
        await until_joined(client, agents=AGENTS)
        yield server


async def submit_all(client: Client, shell: str, *, count: int, ids: list[str], slots: dict[str, str]) -> None:
    """Submit sessions of all users in turn; ids are there as soon as they are known."""
    left = iter(range(count))

    async def work() -> None:
        for number in left:
            ids.append(await submit(client, shell, slots, project=f"project-{number % USERS}", priority="normal"))

    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(work())


async def meddle(client: Client, ids: list[str], counts: dict[str, int]) -> None:
    """Cancel some and hurry others, for ever; what has ended refuses."""
    random = Random(1)
    while True:
        session_id = random.choice(ids) if ids else ""
        act = random.choice(("cancel", "urge", "urge", "urge"))
        try:
            await _act(client, act, session_id, priority=random.choice(("low", "normal", "high", "critical")))
            counts[act] = counts.get(act, 0) + 1
        except Refused:
            counts["refused"] = counts.get("refused", 0) + 1
        await asyncio.sleep(0.02)


async def patiently(look: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a fact on a machine that is busy with other things too."""
    async with asyncio.timeout(WAIT_S_MAX):
        while not await look():  # noqa: ASYNC110  # it is another process that knows
            await asyncio.sleep(0.1)


async def _act(client: Client, act: str, session_id: str, *, priority: str) -> Any:
    if act == "cancel":
        return await client.change(CANCEL, {"id": session_id})
    return await client.change(URGE, {"id": session_id, "priority": priority})


def check_log(database: Path) -> Truth:
    """Fold the whole log of a server that has stopped, and hold it against every rule.

    Raises:
        AssertionError: what is wrong.
    """
    truth = Truth({})
    connection = connect_reader(database)
    try:
        truth.follow(connection)
    finally:
        connection.close()
    return truth


def _device_file(folder: Path, number: int) -> Path:
    devices = ",\n".join(
        f'  {{ mother_uuid = "10ad0000-{number:04x}-4000-8000-{index:012x}", model_name = "Mock", numa_node = 0, '
        f'subproc_count = 132, memory_size = "80g", is_mig_device = false }}'
        for index in range(GPUS)
    )
    path = folder / f"load-{number}.toml"
    path.write_text(
        f'slot_name = "cuda"\ndevice_plugin_name = "CUDADevice"\ndevices = [\n{devices},\n]\n', encoding="utf-8"
    )
    return path
