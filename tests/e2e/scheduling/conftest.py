"""One real server for all tests of a file, reset to idle and the default policy before each."""

from collections.abc import AsyncIterator

import pytest

from e2e_scheduling import Desk, desk_at
from e2e_steering import Office


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def accelerators() -> tuple[str, ...]:
    """Accelerator files, one per agent; tests may override it."""
    return ("two_gpus.toml",)


@pytest.fixture(scope="module")
async def shared_desk(anyio_backend: str, accelerators: tuple[str, ...]) -> AsyncIterator[Desk]:
    async with desk_at(*accelerators) as desk:
        yield desk


@pytest.fixture
async def desk(shared_desk: Desk) -> AsyncIterator[Desk]:
    office = Office(shared_desk.client)
    usual = await office.policy_now()
    yield shared_desk
    await shared_desk.clear()
    await office.clear(usual)


@pytest.fixture
def office(desk: Desk) -> Office:
    return Office(desk.client)
