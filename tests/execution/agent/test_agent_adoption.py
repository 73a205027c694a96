"""The agent's process is killed with kill -9: what the next agent adopts."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness import (
    AgentHarness,
    agent_config,
    is_running,
    marked_processes,
    new_kernel,
    shell,
    shim_pids,
    wait_until,
)
from aliquot.execution.agent import spawner_process
from aliquot_schema.cluster.launching import KernelPhase
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import KernelId
from aliquot_schema.resources.leases import EndEvidence

pytestmark = pytest.mark.anyio
SUPPORT = Path(__file__).parents[2] / "support"


@pytest.fixture
def five() -> list[KernelId]:
    return [new_kernel() for _ in range(5)]


@pytest.fixture
def killed(agent_home: Path, five: list[KernelId]) -> None:
    """Five kernels run, each until a file `go` appears in its work folder; their agent was killed."""
    text = "while ! [ -e go ]; do sleep 0.05; done; exit $(cat go)"
    command = [sys.executable, str(SUPPORT / "agent_process.py"), str(agent_home), text, *five]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for kernel in five:
                assert process.stdout.readline() == f"started {kernel}\n"
        finally:
            process.kill()


@pytest.mark.usefixtures("killed")
async def test_kernels_of_a_killed_agent_are_adopted_and_end_with_their_own_codes(
    agent_home: Path, five: list[KernelId]
) -> None:
    harness = AgentHarness(agent_config(agent_home))
    await harness.open()
    try:
        assert {each.kernel_id: each.phase for each in harness.inventory.kernels} == dict.fromkeys(
            five, KernelPhase.STARTED
        )
        assert [each.ended for each in harness.inventory.specs] == [False] * 5
        for code, kernel in enumerate(five):
            (harness.folder(kernel) / "work" / "go").write_text(str(code))
        reports = [await harness.wait_for_end(kernel) for kernel in five]
        assert [report.exit_code for report in reports] == [0, 1, 2, 3, 4]
        assert {report.evidence for report in reports} == {EndEvidence.EXIT_FILE}
        await wait_until(lambda: shim_pids(agent_home) == [])
    finally:
        await harness.close()


@pytest.mark.usefixtures("killed")
async def test_kernels_that_end_without_an_agent_are_reported_by_the_next_agent(
    agent_home: Path, five: list[KernelId]
) -> None:
    for code, kernel in enumerate(five):
        (agent_home / "kernels" / kernel / "work" / "go").write_text(str(code))
    await wait_until(lambda: shim_pids(agent_home) == [])
    harness = AgentHarness(agent_config(agent_home))
    await harness.open()
    await harness.close()
    codes = {report.kernel_id: report.exit_code for report in harness.inventory.kernels}
    assert [codes[kernel] for kernel in five] == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("killed")
async def test_shims_killed_without_an_agent_are_detected_by_the_next_agent(
    agent_home: Path, five: list[KernelId]
) -> None:
    for pid in shim_pids(agent_home):
        os.kill(pid, signal.SIGKILL)
    await wait_until(lambda: shim_pids(agent_home) == [])
    harness = AgentHarness(agent_config(agent_home))
    await harness.open()
    reports = [await harness.wait_for_end(kernel) for kernel in five]
    await harness.close()
    assert {report.evidence for report in reports} == {EndEvidence.LOCK_AND_GROUP}
    assert [marked_processes(kernel) for kernel in five] == [[]] * 5


@pytest.mark.usefixtures("killed")
async def test_the_spawner_of_a_killed_agent_ends_by_itself(agent_home: Path) -> None:
    log = str(agent_home / "spawner.log")
    await wait_until(
        lambda: [pid for pid in _spawners() if _has_open(pid, log) and pid not in shim_pids(agent_home)] == []
    )


async def test_a_second_agent_on_the_same_folder_is_refused(harness: AgentHarness, agent_home: Path) -> None:
    with pytest.raises(Unavailable):
        await AgentHarness(agent_config(agent_home)).open()


async def test_a_closed_agent_leaves_its_kernels_running(harness: AgentHarness) -> None:
    asked = shell("sleep 1000")
    await harness.core.launch([asked])
    await harness.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    spawner = harness.spawner_pid
    await harness.restart()
    assert spawner is not None
    assert not is_running(spawner)
    assert [report.phase for report in harness.inventory.kernels] == [KernelPhase.STARTED]
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=0)
    assert (await harness.wait_for_end(asked.kernel_id)).signal == signal.SIGKILL


async def test_a_kernel_with_a_deleted_folder_is_killed_before_it_is_reported_as_ended(harness: AgentHarness) -> None:
    asked = shell("sleep 1000")
    await harness.core.launch([asked])
    await harness.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    await harness.close()
    shutil.rmtree(harness.folder(asked.kernel_id))
    await harness.start_again()
    assert harness.inventory.kernels == ()
    assert marked_processes(asked.kernel_id) != []
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=0)
    await harness.wait_for_end(asked.kernel_id)
    assert marked_processes(asked.kernel_id) == []


def _spawners() -> list[int]:
    program = str(spawner_process.PROGRAM)
    return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if program in _command(pid)]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def _has_open(pid: int, path: str) -> bool:
    try:
        return path in [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return False


async def test_an_agent_does_not_start_in_a_copy_of_its_folder_while_jobs_run(
    harness: AgentHarness, agent_home: Path
) -> None:
    asked = shell("sleep 600")
    await harness.core.launch([asked])
    await harness.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    shutil.copytree(harness.config.folder, agent_home.parent / "copy")
    config = agent_config(agent_home.parent / "copy")
    with pytest.raises(Unavailable, match=f"is a copy, and kernel {asked.kernel_id} still runs with the original"):
        await AgentHarness(config).open()
    assert marked_processes(asked.kernel_id)
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=0)
    assert (await harness.wait_for_end(asked.kernel_id)).evidence is EndEvidence.EXIT_FILE
    copy = AgentHarness(config)
    await copy.open()
    await copy.close()
