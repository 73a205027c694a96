"""One server with the demo cluster for all pages, and the built pages."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import docs_tree  # noqa: F401 # registers the generator
from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from docs_running import two_gpu_server


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
async def demo(anyio_backend: str) -> AsyncIterator[OwnServer]:
    """Two mock nodes with eight H100 each."""
    async with OwnServer("--demo") as running:
        async with running.client() as client:
            await until_joined(client, agents=2)
        yield running


@pytest.fixture
async def two_gpus(anyio_backend: str) -> AsyncIterator[OwnServer]:
    """One node with two mock GPUs, for one page alone."""
    async with two_gpu_server() as running:
        yield running


@pytest.fixture(scope="session")
def built() -> Path:
    """The folder with the built pages."""
    from docs_build import built_pages

    return built_pages()
