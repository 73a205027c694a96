"""Cost of shims: memory, CPU time, wake-ups and start time. Run as a program, it prints all of it.

python tests/support/agent_figures.py [KERNELS]
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

from agent_harness import AgentHarness, agent_config, order, process_state, shell, shim_pids, wait_until
from aliquot_schema.cluster.launching import KernelPhase

TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def pss_kib(pid: int) -> int:
    """Proportional set size: private memory, and each shared page divided by its users."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def switches(pid: int) -> int:
    """Context switches so far, of both kinds."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)


def children_cpu_s(pid: int) -> float:
    """CPU time of a process's reaped children, and of theirs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[13]) + int(fields[14])) / TICKS_PER_S


async def idle_shims(harness: AgentHarness, count: int) -> list[int]:
    """Start kernels that sleep, and wait until their shims are idle."""
    asked = [order("sleep", "1000") for _ in range(count)]
    await harness.core.launch(asked)
    for each in asked:
        await harness.wait_for_report(each.kernel_id, KernelPhase.STARTED)
    await wait_until(lambda: all(process_state(pid) == "S" for pid in shim_pids(harness.config.folder)))
    return shim_pids(harness.config.folder)


async def stop_all(harness: AgentHarness) -> None:
    """End every kernel that runs."""
    for report in (await harness.core.inventory()).kernels:
        await harness.core.stop(report.kernel_id, epoch=1, grace_ms=0)
        await harness.wait_for_end(report.kernel_id)


async def trivial_cpu_ms(harness: AgentHarness, count: int) -> float:
    """CPU time of one shim with its `true`, from the fork to the end, milliseconds."""
    spawner = harness.spawner_pid
    assert spawner is not None
    before = children_cpu_s(spawner)
    asked = [order("true") for _ in range(count)]
    await harness.core.launch(asked)
    for each in asked:
        await harness.wait_for_end(each.kernel_id)
    await wait_until(lambda: shim_pids(harness.config.folder) == [])
    return (children_cpu_s(spawner) - before) * 1000 / count


async def start_ms(harness: AgentHarness) -> float:
    """Milliseconds from the order to the job's first byte."""
    asked = shell("echo x")
    began = time.perf_counter()
    await harness.core.launch([asked])
    async for _chunk in harness.core.follow_log(asked.kernel_id, offset=0):
        break
    took = time.perf_counter() - began
    await harness.wait_for_end(asked.kernel_id)
    return took * 1000


async def throughput(harness: AgentHarness, count: int, *, at_once: int) -> tuple[float, float]:
    """(`true` kernels started and finished per second, CPU milliseconds of this process per kernel)."""
    began, cpu = time.perf_counter(), time.process_time()
    for start in range(0, count, at_once):
        asked = [order("true") for _ in range(min(at_once, count - start))]
        await harness.core.launch(asked)
        for each in asked:
            await harness.wait_for_end(each.kernel_id)
        harness.messages.clear()
    return count / (time.perf_counter() - began), (time.process_time() - cpu) * 1000 / count


async def _print_all(count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="aliquot-figures-") as home:
        os.chmod(home, 0o711)
        harness = AgentHarness(agent_config(Path(home) / "agent"))
        await harness.open()
        await _print_idle(harness)
        print(f"CPU of one shim with `true`: {await trivial_cpu_ms(harness, count):.2f} ms")
        print(f"order to first byte, median of 50: {median([await start_ms(harness) for _ in range(50)]):.2f} ms")
        per_s, cpu_ms = await throughput(harness, count, at_once=32)
        print(f"`true` kernels: {per_s:.0f} a second, {cpu_ms:.2f} ms CPU each in the agent's process")
        await harness.close()


async def _print_idle(harness: AgentHarness) -> None:
    one = await idle_shims(harness, 1)
    print(f"PSS of one shim: {pss_kib(one[0])} KiB")
    many = await idle_shims(harness, 63)
    print(f"PSS of each of 64: {sum(map(pss_kib, many)) / len(many):.0f} KiB")
    before = {pid: switches(pid) for pid in many}
    began = time.monotonic()
    await asyncio.sleep(60)
    woken = sum(switches(pid) - before[pid] for pid in many)
    print(f"context switches of 64 idle shims in {time.monotonic() - began:.0f} s: {woken}")
    await stop_all(harness)


if __name__ == "__main__":
    asyncio.run(_print_all(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
