"""Kernels whose end is stored: no longer reported, never run again, readable for a while, then deleted."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from agent_stand import PATIENCE_S, Stand, agent_config, marked, new_kernel, order, shell, until
from aliquot.execution.agent.agent_folder import EndedKernels
from aliquot.execution.settings import DiskRules
from aliquot_schema.cluster.launching import KernelPhase, NewReadings
from aliquot_schema.errors import NotFound
from aliquot_schema.ids import KernelId, kernel_parts

pytestmark = pytest.mark.anyio


async def printed(stand: Stand, kernel: KernelId) -> bytes:
    return b"".join([chunk.data async for chunk in stand.core.follow_log(kernel, offset=0)])


async def test_a_forgotten_kernel_is_no_longer_reported_and_its_output_stays(stand: Stand) -> None:
    asked = shell("echo hello")
    await stand.run(asked)
    await stand.core.forget([asked.kernel_id, new_kernel()])
    assert (await stand.core.inventory()).kernels == ()
    assert await printed(stand, asked.kernel_id) == b"hello\n"
    await stand.reopen()
    assert stand.inventory.kernels == ()
    assert await printed(stand, asked.kernel_id) == b"hello\n"


async def test_an_output_can_be_read_while_its_kernel_is_being_forgotten(stand: Stand) -> None:
    asked = shell("echo hello")
    await stand.run(asked)
    forgetting = asyncio.create_task(stand.core.forget([asked.kernel_id]))
    await asyncio.sleep(0)
    assert not forgetting.done()
    assert await printed(stand, asked.kernel_id) == b"hello\n"
    await forgetting
    assert await printed(stand, asked.kernel_id) == b"hello\n"


async def test_a_running_kernel_is_not_forgotten(stand: Stand) -> None:
    asked = shell("exec sleep 600")
    await stand.core.launch([asked])
    await stand.told(asked.kernel_id, KernelPhase.STARTED)
    await stand.core.forget([asked.kernel_id])
    assert [report.phase for report in (await stand.core.inventory()).kernels] == [KernelPhase.STARTED]
    await stand.core.stop(asked.kernel_id, epoch=1, grace_ms=0)
    await stand.ended(asked.kernel_id)


@pytest.mark.parametrize("restart", [False, True])
async def test_an_order_or_a_stop_for_a_forgotten_kernel_is_answered_with_its_exit(stand: Stand, restart: bool) -> None:
    runs = stand.config.folder.with_name("runs")
    runs.touch()
    runs.chmod(0o666)
    asked = shell(f"echo run >> {runs}; exit 5")
    for again in (lambda: stand.core.launch([asked]), lambda: stand.core.stop(asked.kernel_id, epoch=1, grace_ms=0)):
        if not stand.reports(asked.kernel_id):
            await stand.run(asked)
        await stand.core.forget([asked.kernel_id])
        if restart:
            await stand.reopen()
        stand.said.clear()
        await again()
        assert (await stand.ended(asked.kernel_id)).exit_code == 5
    assert runs.read_text() == "run\n"
    assert marked(asked.kernel_id) == []


async def test_the_oldest_ended_kernels_are_deleted_above_the_maximum(agent_home: Path) -> None:
    stand = Stand(agent_config(agent_home, ended_kept_max=2))
    await stand.open()
    try:
        asked = [order("true") for _ in range(4)]
        for each in asked:
            await stand.run(each)
            await stand.core.forget([each.kernel_id])
        assert [stand.folder(each.kernel_id).exists() for each in asked] == [False, False, True, True]
        with pytest.raises(NotFound):
            await printed(stand, asked[0].kernel_id)
    finally:
        await stand.close()


async def test_ended_kernels_that_are_too_old_are_deleted_at_the_next_agent_start(agent_home: Path) -> None:
    stand = Stand(agent_config(agent_home))
    await stand.open()
    asked = order("true")
    await stand.run(asked)
    await stand.core.forget([asked.kernel_id])
    await stand.close()
    again = Stand(agent_config(agent_home, disk=DiskRules(outputs_kept_s=-1.0)))
    await again.open()
    try:
        assert not again.folder(asked.kernel_id).exists()
    finally:
        await again.close()


async def test_old_results_are_deleted_with_the_last_kernel_of_their_session(agent_home: Path) -> None:
    stand = Stand(agent_config(agent_home))
    await stand.open()
    old, young, known = (shell('echo model > "$RESULT_DIR/model"') for _ in range(3))
    for asked in (old, young, known):
        await stand.run(asked)
    for asked in (old, young):
        await stand.core.forget([asked.kernel_id])
    results = {asked.kernel_id: result_of(stand, asked.kernel_id) for asked in (old, young, known)}
    for kernel_id in (old.kernel_id, known.kernel_id):
        for path in (results[kernel_id], *results[kernel_id].parents[:2], results[kernel_id].parents[1] / "checkpoint"):
            os.utime(path, (1_000_000_000, 1_000_000_000))
    await stand.close()
    again = Stand(agent_config(agent_home, disk=DiskRules(outputs_kept_s=-1.0, results_kept_s=86_400.0)))
    await again.open()
    try:
        left = {kernel_id: path.exists() for kernel_id, path in results.items()}
        assert left == {old.kernel_id: False, young.kernel_id: True, known.kernel_id: True}
    finally:
        await again.close()


async def test_device_readings_continue_while_old_results_are_swept(
    agent_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, spawn = threading.Event(), threading.Event()

    def sweep(_: EndedKernels) -> None:
        begun.set()
        spawn.wait(PATIENCE_S)

    stand = Stand(agent_config(agent_home))
    await stand.open()
    monkeypatch.setattr(EndedKernels, "sweep", sweep)
    try:
        await until(begun.is_set)
        stand.said.clear()
        await until(lambda: any(isinstance(message, NewReadings) for message in stand.said))
    finally:
        spawn.set()
        await stand.close()


def result_of(stand: Stand, kernel_id: KernelId) -> Path:
    """The result that a kernel's job has kept."""
    return stand.config.folder / "sessions" / kernel_parts(kernel_id)[0] / "result" / "model"
