"""The agent's process is killed with kill -9: what the next agent adopts."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent_stand import Stand, agent_config, is_running, marked, new_kernel, shell, shims, until
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
    stand = Stand(agent_config(agent_home))
    await stand.open()
    try:
        assert {each.kernel_id: each.phase for each in stand.inventory.kernels} == dict.fromkeys(
            five, KernelPhase.STARTED
        )
        assert [each.ended for each in stand.inventory.specs] == [False] * 5
        for code, kernel in enumerate(five):
            (stand.folder(kernel) / "work" / "go").write_text(str(code))
        reports = [await stand.ended(kernel) for kernel in five]
        assert [report.exit_code for report in reports] == [0, 1, 2, 3, 4]
        assert {report.evidence for report in reports} == {EndEvidence.EXIT_FILE}
        await until(lambda: shims(agent_home) == [])
    finally:
        await stand.close()


@pytest.mark.usefixtures("killed")
async def test_kernels_that_end_without_an_agent_are_reported_by_the_next_agent(
    agent_home: Path, five: list[KernelId]
) -> None:
    for code, kernel in enumerate(five):
        (agent_home / "kernels" / kernel / "work" / "go").write_text(str(code))
    await until(lambda: shims(agent_home) == [])
    stand = Stand(agent_config(agent_home))
    await stand.open()
    await stand.close()
    codes = {report.kernel_id: report.exit_code for report in stand.inventory.kernels}
    assert [codes[kernel] for kernel in five] == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("killed")
async def test_shims_killed_without_an_agent_are_detected_by_the_next_agent(
    agent_home: Path, five: list[KernelId]
) -> None:
    for pid in shims(agent_home):
        os.kill(pid, signal.SIGKILL)
    await until(lambda: shims(agent_home) == [])
    stand = Stand(agent_config(agent_home))
    await stand.open()
    reports = [await stand.ended(kernel) for kernel in five]
    await stand.close()
    assert {report.evidence for report in reports} == {EndEvidence.LOCK_AND_GROUP}
    assert [marked(kernel) for kernel in five] == [[]] * 5


@pytest.mark.usefixtures("killed")
async def test_the_spawner_of_a_killed_agent_ends_by_itself(agent_home: Path) -> None:
    log = str(agent_home / "spawner.log")
    await until(lambda: [pid for pid in _spawners() if _has_open(pid, log) and pid not in shims(agent_home)] == [])


async def test_a_second_agent_on_the_same_folder_is_refused(stand: Stand, agent_home: Path) -> None:
    with pytest.raises(Unavailable):
        await Stand(agent_config(agent_home)).open()


async def test_a_closed_agent_leaves_its_kernels_running(stand: Stand) -> None:
    asked = shell("sleep 1000")
    await stand.core.launch([asked])
    await stand.told(asked.kernel_id, KernelPhase.STARTED)
    spawner = stand.core.spawner_pid
    await stand.reopen()
    assert spawner is not None
    assert not is_running(spawner)
    assert [report.phase for report in stand.inventory.kernels] == [KernelPhase.STARTED]
    await stand.core.stop(asked.kernel_id, epoch=1, grace_ms=0)
    assert (await stand.ended(asked.kernel_id)).signal == signal.SIGKILL


async def test_a_kernel_with_a_deleted_folder_is_killed_before_it_is_reported_as_ended(stand: Stand) -> None:
    asked = shell("sleep 1000")
    await stand.core.launch([asked])
    await stand.told(asked.kernel_id, KernelPhase.STARTED)
    await stand.close()
    shutil.rmtree(stand.folder(asked.kernel_id))
    await stand.renew()
    assert stand.inventory.kernels == ()
    assert marked(asked.kernel_id) != []
    await stand.core.stop(asked.kernel_id, epoch=1, grace_ms=0)
    await stand.ended(asked.kernel_id)
    assert marked(asked.kernel_id) == []


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
