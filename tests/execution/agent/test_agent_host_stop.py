"""A host shutdown asks every process to end: a job that does counts as lost, not failed."""

import json
import os
import signal

import pytest

from agent_harness import AgentHarness, shell, wait_until
from aliquot_schema.cluster.launching import KernelPhase, KernelReport, LaunchOrder

pytestmark = pytest.mark.anyio


async def end_by_host(harness: AgentHarness, asked: LaunchOrder) -> KernelReport:
    """The end of a running kernel whose shim gets SIGTERM from outside the agent."""
    claim = json.loads((harness.folder(asked.kernel_id) / "claim").read_text())
    os.kill(claim["pid"], signal.SIGTERM)
    return await harness.wait_for_end(asked.kernel_id)


async def test_a_job_stopped_by_a_host_shutdown_is_reported_as_such(harness: AgentHarness) -> None:
    asked = shell("exec sleep 600")
    await harness.core.launch([asked])
    await harness.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    report = await end_by_host(harness, asked)
    assert (report.exit_code, report.signal) == (None, signal.SIGTERM)
    assert report.message is not None
    assert "stopped on its host" in report.message


async def test_a_job_that_exits_by_itself_at_a_host_shutdown_keeps_its_exit_code(harness: AgentHarness) -> None:
    ready = harness.config.folder.with_name("ready")
    ready.touch()
    ready.chmod(0o666)
    text = f"trap 'exit 3' TERM; echo yes > {ready}; while :; do sleep 0.05; done"
    asked = shell(text)
    await harness.core.launch([asked])
    await harness.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    await wait_until(lambda: ready.read_text() == "yes\n")
    report = await end_by_host(harness, asked)
    assert (report.exit_code, report.signal, report.message) == (3, None, None)


async def test_a_job_stopped_by_the_server_is_not_reported_as_stopped_by_its_host(harness: AgentHarness) -> None:
    asked = shell("exec sleep 600")
    await harness.core.launch([asked])
    await harness.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=5000)
    report = await harness.wait_for_end(asked.kernel_id)
    assert (report.signal, report.message) == (signal.SIGTERM, None)
