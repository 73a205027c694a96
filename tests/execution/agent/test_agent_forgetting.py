"""Kernels whose end is stored: no longer reported, never run again, readable for a while, then deleted."""

import asyncio
import errno
import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent_harness import PATIENCE_S, AgentHarness, agent_config, marked_processes, new_kernel, order, shell, wait_until
from aliquot.execution.agent import retention
from aliquot.execution.agent.agent_folder import AgentFolder
from aliquot.execution.agent.logs import OutputLimit
from aliquot.execution.agent.retention import EndedKernels, OldResults
from aliquot.execution.settings import DiskRules
from aliquot_schema.cluster.launching import KernelPhase, NewReadings
from aliquot_schema.errors import NotFound
from aliquot_schema.ids import KernelId, kernel_parts

pytestmark = pytest.mark.anyio

DAY_S = 86_400.0


async def printed(harness: AgentHarness, kernel: KernelId) -> bytes:
    return b"".join([chunk.data async for chunk in harness.core.follow_log(kernel, offset=0)])


async def test_a_forgotten_kernel_is_no_longer_reported_and_its_output_stays(harness: AgentHarness) -> None:
    asked = shell("echo hello")
    await harness.run(asked)
    await harness.core.forget([asked.kernel_id, new_kernel()])
    assert (await harness.core.inventory()).kernels == ()
    assert await printed(harness, asked.kernel_id) == b"hello\n"
    await harness.restart()
    assert harness.inventory.kernels == ()
    assert await printed(harness, asked.kernel_id) == b"hello\n"


async def test_an_output_can_be_read_while_its_kernel_is_being_forgotten(harness: AgentHarness) -> None:
    asked = shell("echo hello")
    await harness.run(asked)
    forgetting = asyncio.create_task(harness.core.forget([asked.kernel_id]))
    await asyncio.sleep(0)
    assert not forgetting.done()
    assert await printed(harness, asked.kernel_id) == b"hello\n"
    await forgetting
    assert await printed(harness, asked.kernel_id) == b"hello\n"


async def test_kernels_are_forgotten_though_the_disk_deletes_nothing_now(
    agent_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = AgentHarness(agent_config(agent_home, ended_kept_max=0))
    await harness.open()
    asked = shell("echo hello")
    await harness.run(asked)
    with monkeypatch.context() as disk:

        def refuse(*_: object) -> None:
            raise OSError(errno.EROFS, "read-only file system")

        disk.setattr(Path, "rename", refuse)
        await harness.core.forget([asked.kernel_id])
        assert (await harness.core.inventory()).kernels == ()
    assert harness.folder(asked.kernel_id).exists()
    await harness.core.forget([])
    assert not harness.folder(asked.kernel_id).exists()
    await harness.close()


async def test_a_running_kernel_is_not_forgotten(harness: AgentHarness) -> None:
    asked = shell("exec sleep 600")
    await harness.core.launch([asked])
    await harness.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    await harness.core.forget([asked.kernel_id])
    assert [report.phase for report in (await harness.core.inventory()).kernels] == [KernelPhase.STARTED]
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=0)
    await harness.wait_for_end(asked.kernel_id)


@pytest.mark.parametrize("restart", [False, True])
async def test_an_order_or_a_stop_for_a_forgotten_kernel_is_answered_with_its_exit(
    harness: AgentHarness, restart: bool
) -> None:
    runs = harness.config.folder.with_name("runs")
    runs.touch()
    runs.chmod(0o666)
    asked = shell(f"echo run >> {runs}; exit 5")
    for again in (
        lambda: harness.core.launch([asked]),
        lambda: harness.core.stop(asked.kernel_id, epoch=1, grace_ms=0),
    ):
        if not harness.reports(asked.kernel_id):
            await harness.run(asked)
        await harness.core.forget([asked.kernel_id])
        if restart:
            await harness.restart()
        harness.messages.clear()
        await again()
        assert (await harness.wait_for_end(asked.kernel_id)).exit_code == 5
    assert runs.read_text() == "run\n"
    assert marked_processes(asked.kernel_id) == []


async def test_the_oldest_ended_kernels_are_deleted_above_the_maximum(agent_home: Path) -> None:
    harness = AgentHarness(agent_config(agent_home, ended_kept_max=2))
    await harness.open()
    try:
        asked = [order("true") for _ in range(4)]
        for each in asked:
            await harness.run(each)
            await harness.core.forget([each.kernel_id])
        assert [harness.folder(each.kernel_id).exists() for each in asked] == [False, False, True, True]
        with pytest.raises(NotFound):
            await printed(harness, asked[0].kernel_id)
    finally:
        await harness.close()


async def test_ended_kernels_that_are_too_old_are_deleted_at_the_next_agent_start(agent_home: Path) -> None:
    harness = AgentHarness(agent_config(agent_home))
    await harness.open()
    asked = order("true")
    await harness.run(asked)
    await harness.core.forget([asked.kernel_id])
    await harness.close()
    again = AgentHarness(agent_config(agent_home, disk=DiskRules(outputs_kept_s=-1.0)))
    await again.open()
    try:
        assert not again.folder(asked.kernel_id).exists()
    finally:
        await again.close()


async def test_old_results_are_deleted_with_the_last_kernel_of_their_session(agent_home: Path) -> None:
    harness = AgentHarness(agent_config(agent_home))
    await harness.open()
    old, young, known = (shell('echo model > "$RESULT_DIR/model"') for _ in range(3))
    for asked in (old, young, known):
        await harness.run(asked)
    for asked in (old, young):
        await harness.core.forget([asked.kernel_id])
    results = {asked.kernel_id: result_of(harness, asked.kernel_id) for asked in (old, young, known)}
    for kernel_id in (old.kernel_id, known.kernel_id):
        for path in (results[kernel_id], *results[kernel_id].parents[:2], results[kernel_id].parents[1] / "checkpoint"):
            os.utime(path, (1_000_000_000, 1_000_000_000))
    await harness.close()
    again = AgentHarness(agent_config(agent_home, disk=DiskRules(outputs_kept_s=-1.0, results_kept_s=86_400.0)))
    await again.open()
    try:
        left = {kernel_id: path.exists() for kernel_id, path in results.items()}
        assert left == {old.kernel_id: False, young.kernel_id: True, known.kernel_id: True}
    finally:
        await again.close()


async def test_results_of_a_session_that_runs_again_while_others_are_searched_are_kept(
    harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = shell('echo model > "$RESULT_DIR/model"')
    await harness.run(asked)
    folder, model = AgentFolder(harness.config.folder), result_of(harness, asked.kernel_id)
    away = folder.kernel(asked.kernel_id).path.rename(folder.path / "away")

    def search(_folder: Path, _oldest: float) -> bool:
        away.rename(folder.kernel(asked.kernel_id).path)
        return False

    monkeypatch.setattr(retention, "_is_younger", search)
    OldResults(folder, kept_s=0).sweep()
    assert model.exists()


@pytest.mark.parametrize("restarts", [1, 2])
async def test_a_clock_that_is_400_days_ahead_deletes_nothing_for_a_day(
    agent_home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, restarts: int
) -> None:
    config = agent_config(agent_home)
    harness = AgentHarness(config)
    await harness.open()
    asked = shell('echo model > "$RESULT_DIR/model"')
    await harness.run(asked)
    await harness.core.forget([asked.kernel_id])
    model = result_of(harness, asked.kernel_id)
    await harness.close()
    folder = AgentFolder(config.folder)
    ahead = SimpleNamespace(CLOCK_BOOTTIME=time.CLOCK_BOOTTIME, clock_gettime=time.clock_gettime)
    ahead.monotonic, ahead.time = time.monotonic, lambda: time.time() + 400 * DAY_S
    monkeypatch.setattr(retention, "time", ahead)
    for _ in range(restarts):
        results = OldResults(folder, kept_s=365 * DAY_S)
        ended = EndedKernels(folder, kept_s=30 * DAY_S, kept_max=9, limit=OutputLimit(None), results=results)
        ended.open()
        ended.sweep()
        assert (folder.kernel(asked.kernel_id).path.exists(), model.exists()) == (True, True)
    assert caplog.text.count("the clock jumped ahead by 400 days") == restarts
    ahead.clock_gettime = lambda clock: time.clock_gettime(clock) + DAY_S
    ahead.time = lambda: time.time() + 401 * DAY_S
    ended.sweep()
    assert not folder.kernel(asked.kernel_id).path.exists()


async def test_device_readings_continue_while_old_results_are_swept(
    agent_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, spawn = threading.Event(), threading.Event()

    def sweep(_: EndedKernels) -> None:
        begun.set()
        spawn.wait(PATIENCE_S)

    harness = AgentHarness(agent_config(agent_home))
    await harness.open()
    monkeypatch.setattr(EndedKernels, "sweep", sweep)
    try:
        await wait_until(begun.is_set)
        harness.messages.clear()
        await wait_until(lambda: any(isinstance(message, NewReadings) for message in harness.messages))
    finally:
        spawn.set()
        await harness.close()


def result_of(harness: AgentHarness, kernel_id: KernelId) -> Path:
    """The result that a kernel's job has kept."""
    return harness.config.folder / "sessions" / kernel_parts(kernel_id)[0] / "result" / "model"
