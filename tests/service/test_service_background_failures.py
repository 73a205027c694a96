"""Background loops of a server that fail: what its log says."""

import asyncio

import pytest

from aliquot.app.running import WatchedTask
from aliquot_schema.errors import Unavailable

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("error", "has_traceback"),
    [(Unavailable("another server leads; give --no-local-agents"), False), (ValueError("a bug"), True)],
)
async def test_an_expected_failure_is_logged_without_a_traceback(
    error: Exception, has_traceback: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise ExceptionGroup("unhandled errors in a TaskGroup", [error])

    watched = WatchedTask(asyncio.create_task(fail()))
    await watched.failed.wait()
    (record,) = caplog.records
    assert (record.exc_info is not None) == has_traceback
    assert has_traceback or "another server leads; give --no-local-agents" in record.getMessage()
