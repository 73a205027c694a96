"""Real containers; `scripts/test --long` installs Podman."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
