"""A server over fakes for the tests of the HTTP face."""

from collections.abc import AsyncIterator

import pytest

from api_server import ApiServer, api_server


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def server(anyio_backend: str) -> AsyncIterator[ApiServer]:
    async with api_server() as running:
        yield running
