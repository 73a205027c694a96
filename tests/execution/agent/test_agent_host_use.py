"""CPU and host memory of a kernel: measured while it runs; the peaks are kept until its end."""

from pathlib import Path

import pytest

from agent_stand import Stand, order, shell, until
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


def uses(stand: Stand, kernel: KernelId) -> list[HostUse]:
    taken = [message for message in stand.said if isinstance(message, NewReadings)]
    return [message.host_uses[kernel] for message in taken if kernel in message.host_uses]


def is_busy(use: HostUse) -> bool:
    return (use.memory_bytes or 0) > 64 * MIB and (use.cpu_milli or 0) > 300


async def test_cpu_and_memory_use_of_a_kernel_are_measured_and_the_peaks_are_kept(stand: Stand) -> None:
    asked = order("/usr/bin/env", "python3", "-c", PROGRAM)
    kernel = asked.kernel_id
    await stand.core.launch([asked])
    await until(lambda: any(is_busy(use) for use in uses(stand, kernel)))
    await until(lambda: 0 < (uses(stand, kernel)[-1].memory_bytes or 0) < 40 * MIB)
    await until(lambda: (uses(stand, kernel)[-1].cpu_milli or 0) < 100)
    await stand.core.stop(kernel, epoch=1, grace_ms=0)
    use = (await stand.ended(kernel)).host_use
    assert use is not None
    assert 64 * MIB < (use.memory_bytes_max or 0) < 200 * MIB
    assert 300 < (use.cpu_milli_max or 0) < 2500
    assert use.cpu_ms >= max(one.cpu_ms for one in uses(stand, kernel)) > 100


async def test_the_cpu_time_of_a_kernel_that_ends_between_two_readings_is_recorded(stand: Stand) -> None:
    report = await stand.run(order("/usr/bin/env", "python3", "-c", "sum(range(30_000_000))"))
    assert report.host_use is not None
    assert 10 < report.host_use.cpu_ms < 60_000


async def test_a_restarted_agent_continues_to_measure_its_kernels(stand: Stand) -> None:
    asked = shell("sleep 600 & while :; do :; done")
    await stand.core.launch([asked])
    await until(lambda: len(uses(stand, asked.kernel_id)) > 1)
    before = uses(stand, asked.kernel_id)[-1].cpu_ms
    await stand.reopen()
    await until(lambda: bool(uses(stand, asked.kernel_id)))
    assert uses(stand, asked.kernel_id)[-1].cpu_ms >= before


def test_the_memory_of_a_cgroup_excludes_reclaimable_memory(tmp_path: Path) -> None:
    assert memory_bytes(str(tmp_path)) is None
    (tmp_path / "memory.stat").write_text("anon 4096\nfile 999999\nkernel 1\nshmem 100\n", encoding="ascii")
    assert memory_bytes(str(tmp_path)) == 4196
