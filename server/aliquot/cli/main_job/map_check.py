"""Holds `gpu_alloc_map` against the sum of what the live processes say they were given.

The two are read one after the other, so a kernel may start or end in between. A comparison is therefore made of two
answers of the server with the same revision and a look at /proc between them: what was committed did not change
meanwhile. A kernel that the server calls running must then have a live process, and a live process must belong to a
kernel that holds devices; a kernel that died but was not yet reported is waited for until the revision moves. A kernel
that holds devices but is granted, starting or stopping may have no process: then its grant stands in, and is counted.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aliquot.cli.main_job.cluster_view import AgentNow, ClusterNow, HoldingKernel, read_cluster
from aliquot.cli.main_job.live_processes import LiveKernel, live_kernels
from aliquot.client import Client
from aliquot_schema.slots import format_milli
from aliquot_schema.states import KernelState

QUIET_S_MAX: Final = 20.0
"""How long to wait for a moment in which nothing moves."""
AGAIN_S: Final = 0.005


@dataclass(slots=True, kw_only=True)
class MapCheck:
    """Compares, and counts what it compared."""

    client: Client
    data_folder: Path
    """Has the kernels' files in it: they are known by that."""
    compared: int = 0
    from_processes_alone: int = 0
    """Comparisons in which every share came from a live process, and there was at least one."""
    differences: list[str] = field(default_factory=list)

    async def compare(self) -> tuple[ClusterNow, dict[str, LiveKernel]]:
        """Find a quiet moment, compare every agent's map, and return what was seen."""
        cluster, live = await self._quiet_moment()
        self.compared += 1
        held = {kernel.id for agent in cluster.agents for kernel in agent.kernels}
        if held and held == live.keys():
            self.from_processes_alone += 1
        self.differences += [f"event {cluster.revision}: {text}" for text in differences(cluster, live)]
        return cluster, live

    async def _quiet_moment(self) -> tuple[ClusterNow, dict[str, LiveKernel]]:
        deadline = asyncio.get_running_loop().time() + QUIET_S_MAX
        before = await read_cluster(self.client)
        while True:
            live = live_kernels(self.data_folder)
            after = await read_cluster(self.client)
            settled = before.revision == after.revision and not _missing(after, live)
            if settled or asyncio.get_running_loop().time() > deadline:
                return after, live
            before = after
            await asyncio.sleep(AGAIN_S)


def differences(cluster: ClusterNow, live: Mapping[str, LiveKernel]) -> list[str]:
    """Everything in which the server's answer is not what the live processes say."""
    held = {kernel.id for agent in cluster.agents for kernel in agent.kernels}
    found = [
        f"{kernel_id} runs (pid {live[kernel_id].pid}) but holds nothing" for kernel_id in sorted(live.keys() - held)
    ]
    found += [f"{kernel_id} is running but has no process" for kernel_id in _missing(cluster, live)]
    for agent in cluster.agents:
        for kernel in agent.kernels:
            found += _grant_differences(kernel, live.get(kernel.id))
        found += _sum_differences(agent, live)
    return found


def _missing(cluster: ClusterNow, live: Mapping[str, LiveKernel]) -> list[str]:
    return [
        kernel.id
        for agent in cluster.agents
        for kernel in agent.kernels
        if kernel.state is KernelState.RUNNING and kernel.id not in live
    ]


def _grant_differences(kernel: HoldingKernel, process: LiveKernel | None) -> list[str]:
    if process is None:
        return []
    found = []
    if process.shares != kernel.shares:
        found.append(f"{kernel.id} was granted {dict(kernel.shares)} but its process has {dict(process.shares)}")
    if sorted(process.visible) != sorted(kernel.shares):
        found.append(f"{kernel.id} was granted {sorted(kernel.shares)} but its process sees {list(process.visible)}")
    return found


def _sum_differences(agent: AgentNow, live: Mapping[str, LiveKernel]) -> list[str]:
    total = dict.fromkeys(agent.alloc_map, 0)
    for kernel in agent.kernels:
        process = live.get(kernel.id)
        for device, amount in (process.shares if process else kernel.shares).items():
            total[device] = total.get(device, 0) + amount
    return [
        f"{agent.id}: the map says {format_milli(agent.alloc_map.get(device, 0))} of {device}, "
        f"the processes {format_milli(amount)}"
        for device, amount in total.items()
        if amount != agent.alloc_map.get(device, 0)
    ]
