"""The server that the README's examples are run against."""

from collections.abc import AsyncIterator

import pytest

from aliquot.cli.acceptance.processes import OwnServer
from docs_running import two_gpu_server


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def two_gpus(anyio_backend: str) -> AsyncIterator[OwnServer]:
    async with two_gpu_server() as running:
        yield running
