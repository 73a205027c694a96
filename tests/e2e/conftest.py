"""Real servers, each with a folder and a port of its own."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from store_postgres import PostgresCluster, postgres_cluster

ACCELERATORS = Path(__file__).parents[1] / "data" / "accelerators"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def two_gpus(anyio_backend: str) -> AsyncIterator[OwnServer]:
    """One agent with the two mock GPUs of the README."""
    async with OwnServer("--accelerators", str(ACCELERATORS / "two_gpus.toml")) as server:
        await joined(server, agents=1)
        yield server


@pytest.fixture
async def demo(anyio_backend: str) -> AsyncIterator[OwnServer]:
    """Two mock nodes with eight H100 each."""
    async with OwnServer("--demo") as server:
        await joined(server, agents=2)
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresCluster]:
    """On a disk, and waiting for it: some tests restart it under load."""
    with postgres_cluster() as cluster:
        yield cluster


@pytest.fixture
def database_url(postgres: PostgresCluster) -> str:
    """A new database."""
    return postgres.new_database()


async def joined(server: OwnServer, *, agents: int) -> None:
    async with server.client() as client:
        await until_joined(client, agents=agents)
