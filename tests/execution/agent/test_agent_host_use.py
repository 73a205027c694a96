"""CPU and host memory of a kernel: measured while it runs; the peaks are kept until its end."""

from pathlib import Path

import pytest

from agent_harness import AgentHarness, order, shell, wait_until
from aliquot.execution.agent.cgroups import memory_bytes
from aliquot_schema.cluster.launching import NewReadings
from aliquot_schema.ids import KernelId
from aliquot_schema.resources.leases import HostUse

pytestmark = pytest.mark.anyio

MIB = 1 << 20
PROGRAM = """
import os, time
until = time.monotonic() + 2
block = bytearray(os.urandom(1 << 20)) * 64
while time.monotonic() < until: pass
del block
time.sleep(600)
"""


def uses(harness: AgentHarness, kernel: KernelId) -> list[HostUse]:
    taken = [message for message in harness.messages if isinstance(message, NewReadings)]
    return [message.host_uses[kernel] for message in taken if kernel in message.host_uses]


def is_busy(use: HostUse) -> bool:
    return (use.memory_bytes or 0) > 64 * MIB and (use.cpu_milli or 0) > 300


async def test_cpu_and_memory_use_of_a_kernel_are_measured_and_the_peaks_are_kept(harness: AgentHarness) -> None:
    asked = order("/usr/bin/env", "python3", "-c", PROGRAM)
    kernel = asked.kernel_id
    await harness.core.launch([asked])
    await wait_until(lambda: any(is_busy(use) for use in uses(harness, kernel)))
    await wait_until(lambda: 0 < (uses(harness, kernel)[-1].memory_bytes or 0) < 40 * MIB)
    await wait_until(lambda: (uses(harness, kernel)[-1].cpu_milli or 0) < 100)
    await harness.core.stop(kernel, epoch=1, grace_ms=0)
    use = (await harness.wait_for_end(kernel)).host_use
    assert use is not None
    assert 64 * MIB < (use.memory_bytes_max or 0) < 200 * MIB
    assert 300 < (use.cpu_milli_max or 0) < 2500
    assert use.cpu_ms >= max(one.cpu_ms for one in uses(harness, kernel)) > 100


async def test_the_cpu_time_of_a_kernel_that_ends_between_two_readings_is_recorded(harness: AgentHarness) -> None:
    report = await harness.run(order("/usr/bin/env", "python3", "-c", "sum(range(30_000_000))"))
    assert report.host_use is not None
    assert 10 < report.host_use.cpu_ms < 60_000


async def test_a_restarted_agent_continues_to_measure_its_kernels(harness: AgentHarness) -> None:
    asked = shell("sleep 600 & while :; do :; done")
    await harness.core.launch([asked])
    await wait_until(lambda: len(uses(harness, asked.kernel_id)) > 1)
    before = uses(harness, asked.kernel_id)[-1].cpu_ms
    await harness.restart()
    await wait_until(lambda: bool(uses(harness, asked.kernel_id)))
    assert uses(harness, asked.kernel_id)[-1].cpu_ms >= before


def test_the_memory_of_a_cgroup_excludes_reclaimable_memory(tmp_path: Path) -> None:
    assert memory_bytes(str(tmp_path)) is None
    (tmp_path / "memory.stat").write_text("anon 4096\nfile 999999\nkernel 1\nshmem 100\n", encoding="ascii")
    assert memory_bytes(str(tmp_path)) == 4196
