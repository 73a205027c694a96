"""A server over fakes for the HTTP API tests."""

from collections.abc import AsyncIterator

import pytest

from api_server import ApiServer, Stage, listening, on_stage


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The event loop of the server."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
async def staged(anyio_backend: object) -> AsyncIterator[tuple[Stage, int]]:
    stage = Stage()
    async with listening(stage, lifespan="off") as port:
        yield stage, port


@pytest.fixture
async def server(staged: tuple[Stage, int]) -> AsyncIterator[ApiServer]:
    stage, port = staged
    async with on_stage(stage, port) as running:
        yield running
