"""Service tests run on asyncio, the only loop the server runs on."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
