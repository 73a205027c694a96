"""An agent whose disk accepts no writes refuses orders to start, so that they are retried."""

import asyncio
import errno
import os
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_harness import AgentHarness, agent_config, marked_processes, order, shell, shim_pids
from aliquot.execution.agent import checkpoints, kernel_watch
from aliquot.execution.agent.agent_folder import KernelFolder
from aliquot.execution.agent.job_user import JobUser
from aliquot.execution.agent.json_files import claim_file, replace_file
from aliquot_schema.cluster.launching import KernelPhase
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import AgentId
from aliquot_schema.resources.leases import EndEvidence

pytestmark = pytest.mark.anyio


def full(*_: object, **__: object) -> None:
    """Fails as on a full disk."""
    raise OSError(errno.ENOSPC, "no space left")


@pytest.mark.parametrize("broken", ["kernels", "drafts"])
async def test_an_order_that_cannot_be_written_to_disk_is_refused_and_the_next_one_runs(
    harness: AgentHarness, broken: str
) -> None:
    folder = harness.config.folder / broken
    away = folder.rename(folder.with_name("away"))
    folder.write_text("no folder")
    asked = shell("true")
    await harness.core.launch([asked])
    report = await harness.wait_for_report(asked.kernel_id, KernelPhase.REFUSED)
    assert (report.code, report.evidence) == ("unavailable", EndEvidence.REFUSED)
    assert "cannot write to its disk" in (report.message or "")
    folder.unlink()
    away.rename(folder)
    assert (await harness.run(shell("exit 3"))).exit_code == 3


def test_a_folder_that_cannot_be_filled_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    user = JobUser(name="x", uid=os.getuid(), gid=os.getgid(), groups=(), home="/none", shell="/bin/sh", switches=False)
    asked = order("true")
    drafts, kernel = tmp_path / "drafts", KernelFolder(tmp_path / "kernels" / asked.kernel_id)
    drafts.mkdir()

    def fill(work: Path) -> None:
        (work / "large").write_bytes(b"x" * 1000)
        raise OSError(errno.ENOSPC, "no space left")

    with pytest.raises(OSError, match="no space left"):
        kernel.create(asked, agent_id=AgentId("a"), boot_id="b", group=None, user=user, drafts=drafts, fill=fill)
    assert (list(drafts.iterdir()), kernel.path.exists()) == ([], False)


def test_a_claim_that_cannot_be_written_leaves_nothing_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aliquot.execution.agent.agent_folder.write_file", full)
    with pytest.raises(OSError, match="no space left"):
        KernelFolder(tmp_path / "kernels" / "ses_1.1.0").close_to_starts({"by": "stop"}, drafts=tmp_path)
    assert list(tmp_path.iterdir()) == []


async def test_refused_orders_are_answered_on_a_full_disk(harness: AgentHarness) -> None:
    folder = harness.config.folder / "kernels"
    away = folder.rename(folder.with_name("away"))
    folder.write_text("no folder")
    late, fresh = shell("true", not_after_us=1), shell("true")
    await harness.core.launch([late, fresh])
    for asked in (late, fresh):
        assert (await harness.wait_for_report(asked.kernel_id, KernelPhase.REFUSED)).evidence is EndEvidence.REFUSED
    folder.unlink()
    away.rename(folder)
    async with asyncio.timeout(10):
        await harness.core.stop(late.kernel_id, epoch=1, grace_ms=0)


async def test_a_running_kernel_is_stopped_on_a_full_disk_by_an_order_of_a_new_leader(
    harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = shell("sleep 1000")
    await harness.core.launch([asked])
    await harness.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    for module in ("json_files", "agent_folder"):
        monkeypatch.setattr(f"aliquot.execution.agent.{module}.write_file", full)
    with pytest.raises(Unavailable, match=r"cannot write to its disk: .*no space left"):
        await harness.core.launch([order("true", epoch=5)])
    await harness.core.stop(asked.kernel_id, epoch=5, grace_ms=1000)
    assert (await harness.wait_for_report(asked.kernel_id, KernelPhase.EXITED)).signal == signal.SIGTERM


def test_a_file_that_cannot_be_written_leaves_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aliquot.execution.agent.json_files.os.fsync", full)
    for write in (replace_file, claim_file):
        with pytest.raises(OSError, match="no space left"):
            write(tmp_path / "epoch.json", {"format": 1})
    assert list(tmp_path.iterdir()) == []


async def test_a_checkpoint_that_a_full_disk_did_not_take_is_noted_and_the_job_ends_once_there_is_space(
    harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_watch, "_RETRY_S", 0.1)
    asked = shell('touch "$CHECKPOINT_DIR/DONE"; sleep 0.3')
    with monkeypatch.context() as disk:
        disk.setattr(checkpoints, "replace_file", full)
        await harness.core.launch([asked])
        report = await harness.wait_for_report(asked.kernel_id, KernelPhase.UNCERTAIN)
        assert "no space left" in (report.message or "")
    report = await harness.wait_for_end(asked.kernel_id)
    assert (report.exit_code, report.saved_ms is not None) == (0, True)


async def test_the_end_of_a_job_on_a_rebooted_host_is_recorded_once_there_is_space(
    agent_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_watch, "_RETRY_S", 0.1)
    harness, asked = AgentHarness(agent_config(agent_home)), shell("sleep 1000")
    await harness.open()
    await harness.core.launch([asked])
    await harness.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    await harness.close()
    for pid in (*shim_pids(agent_home), *marked_processes(asked.kernel_id)):
        os.kill(pid, signal.SIGKILL)
    node = replace(harness.config.node, boot_id="another")
    after = AgentHarness(replace(harness.config, node=node))
    with monkeypatch.context() as disk:
        disk.setattr(kernel_watch, "replace_file", full)
        await after.open()
        await asyncio.sleep(0.3)
        assert after.reports(asked.kernel_id) == []
    try:
        assert (await after.wait_for_end(asked.kernel_id)).evidence is EndEvidence.BOOT_ID
    finally:
        await after.close()


async def test_drafts_of_every_kind_are_removed_at_the_start(tmp_path: Path) -> None:
    harness = AgentHarness(agent_config(tmp_path))
    (tmp_path / "drafts").mkdir()
    (tmp_path / "drafts" / "results-1").write_text("half")
    (tmp_path / "drafts" / "kernel-1").mkdir()
    await harness.open()
    try:
        assert list((tmp_path / "drafts").iterdir()) == []
    finally:
        await harness.close()
