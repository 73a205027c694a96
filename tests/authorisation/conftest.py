"""One running server with a user of each role."""

from collections.abc import AsyncIterator

import pytest

from authorisation_scene import Scene, scene


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def people(anyio_backend: str) -> AsyncIterator[Scene]:
    async with scene() as found:
        yield found
