"""One real server for all tests of a file, reset to idle and the default policy before each."""

from collections.abc import AsyncIterator

import pytest

from e2e_operator import Operator
from e2e_scheduling import SchedulingHarness, scheduling_harness


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def accelerators() -> tuple[str, ...]:
    """Accelerator files, one per agent; tests may override it."""
    return ("two_gpus.toml",)


@pytest.fixture(scope="module")
async def shared_harness(anyio_backend: str, accelerators: tuple[str, ...]) -> AsyncIterator[SchedulingHarness]:
    async with scheduling_harness(*accelerators) as harness:
        yield harness


@pytest.fixture
async def harness(shared_harness: SchedulingHarness) -> AsyncIterator[SchedulingHarness]:
    operator = Operator(shared_harness.client)
    usual = await operator.current_policy()
    yield shared_harness
    await shared_harness.reset()
    await operator.reset(usual)


@pytest.fixture
def operator(harness: SchedulingHarness) -> Operator:
    return Operator(harness.client)
