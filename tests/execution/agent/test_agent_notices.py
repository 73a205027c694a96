"""Faults around an agent: an eviction command that hangs, a file that cannot be read."""

import asyncio
import errno
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aliquot.execution.agent.device_health import RETURN_FILE, HealthWatch
from aliquot.execution.agent.node_notices import NodeNotices
from aliquot.execution.devices.faults import Fault
from aliquot.execution.settings import HealthRules, NoticeRules
from aliquot_schema.ids import DeviceId

pytestmark = pytest.mark.anyio


async def test_an_eviction_command_that_hangs_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aliquot.execution.agent.node_notices.COMMAND_S", 0.3)
    alive = tmp_path / "alive"
    notices = NodeNotices(NoticeRules(eviction_command=f"(sleep 3; touch {alive}; sleep 300) | cat"))
    async with asyncio.timeout(2.5):
        await notices.refresh()
    assert notices.attributes == {}
    await asyncio.sleep(3)
    assert not alive.exists(), "a process of the command is left"


async def test_an_eviction_command_that_cannot_be_started_leaves_what_was_known(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    notices = NodeNotices(NoticeRules(eviction_command="echo taken at noon"))
    await notices.refresh()

    async def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "no process can be created")

    monkeypatch.setattr(asyncio, "create_subprocess_shell", refuse)
    await notices.refresh()
    assert list(notices.attributes.values()) == ["taken at noon"]
    assert "cannot be started" in caplog.text


class Quiet:
    """No device has a fault."""

    async def faults(self) -> AsyncIterator[Fault]:
        await asyncio.sleep(300)
        yield Fault(device_id=DeviceId("x"), kind="xid 79")


async def test_a_return_file_that_cannot_be_read_does_not_end_the_watch(tmp_path: Path) -> None:
    (tmp_path / RETURN_FILE).mkdir()
    watch = HealthWatch(HealthRules(check_interval_s=0.02), folder=tmp_path, held=lambda: (), source=Quiet())
    await asyncio.to_thread(watch.open)

    async def tell() -> None:
        """Does nothing."""

    following = asyncio.create_task(watch.follow(tell=tell))
    until_s = time.monotonic() + 0.3
    while time.monotonic() < until_s and not following.done():  # noqa: ASYNC110 - nothing happens that could be awaited
        await asyncio.sleep(0.02)
    assert not following.done()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
