"""A server with 64 mock GPUs, 128 halves of which run real jobs, and its log afterwards."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.store.engines.sqlite import connect_reader
from simulation_reference_model import ReferenceModel

AGENTS: Final = 8
GPUS: Final = 8
WAIT_S_MAX: Final = 400.0


@asynccontextmanager
async def load_server(folder: Path) -> AsyncIterator[OwnServer]:
    """64 GPUs on eight agents, in the server's own process.

    Jobs of all users run as one account: no host has a Unix account for each of fifty.
    """
    options = [f"--accelerators={_device_file(folder, number)}" for number in range(AGENTS)]
    async with OwnServer(*options, "--single-trust-domain", "--log-level=warning") as server, server.client() as client:
        await until_joined(client, agents=AGENTS)
        yield server


async def wait_until(look: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition on a busy machine."""
    async with asyncio.timeout(WAIT_S_MAX):
        while not await look():  # noqa: ASYNC110  # another process sets it
            await asyncio.sleep(0.1)


def check_log(database: Path) -> ReferenceModel:
    """Fold the whole log of a stopped server, and check it against every rule.

    Raises:
        AssertionError: the violated rule.
    """
    model = ReferenceModel({})
    connection = connect_reader(database)
    try:
        model.follow(connection)
    finally:
        connection.close()
    return model


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
