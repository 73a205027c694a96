"""One running server with a user of each role."""

from collections.abc import AsyncIterator

import pytest

from authorisation_server import AuthorisationServer, authorisation_server


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def server(anyio_backend: str) -> AsyncIterator[AuthorisationServer]:
    async with authorisation_server() as found:
        yield found
