"""The server that the README's examples are run against."""

import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aliquot.cli.main_job.cluster_view import until_joined
from aliquot.cli.main_job.own_server import OwnServer


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def accelerators() -> Path:
    return Path(__file__).parents[1] / "data" / "accelerators" / "two_gpus.toml"


@pytest.fixture
def described(accelerators: Path) -> dict[str, Any]:
    """What the file says."""
    return tomllib.loads(accelerators.read_text(encoding="utf-8"))


@pytest.fixture
async def server(anyio_backend: str, accelerators: Path) -> AsyncIterator[OwnServer]:
    async with OwnServer("--accelerators", str(accelerators)) as running:
        async with running.client() as client:
            await until_joined(client, agents=1)
        yield running
