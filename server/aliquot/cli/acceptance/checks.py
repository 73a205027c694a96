"""Live processes: reads them from /proc and compares their devices with `gpu_alloc_map`.

Server and processes are read one after the other, so a kernel may start or end in between. A comparison therefore takes
two answers of the server with the same revision, and reads /proc between them: nothing was committed meanwhile. A
kernel in state running must have a live process, and a live process must belong to a kernel that holds devices. A
kernel that died but was not yet reported is waited for until the revision changes. A kernel that is granted, starting
or stopping may have no process: then its grant is used instead, and counted.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec import Struct

from aliquot.cli.acceptance.cluster_view import AgentNow, ClusterNow, HoldingKernel, read_cluster
from aliquot.client import Client
from aliquot_schema.resources.slots import format_milli, parse_amount
from aliquot_schema.states import KernelState

PROC: Final = Path("/proc")
KERNEL_ID: Final = "ALIQUOT_KERNEL_ID"
RESOURCE_FILE: Final = "ALIQUOT_RESOURCE_FILE"
SHARES: Final = "ALIQUOT_GPU_SHARES"
VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
KILL_S_MAX: Final = 10.0


class LiveKernel(Struct, frozen=True, kw_only=True):
    """A kernel with at least one live process, as in that process's environment."""

    kernel_id: str
    pid: int
    visible: tuple[str, ...]
    """The ids in CUDA_VISIBLE_DEVICES."""
    shares: Mapping[str, int]
    """Milli of each device."""


def live_kernels(data_folder: Path) -> dict[str, LiveKernel]:
    """Kernels with a live process that was started by the agents of one server, by id.

    Zombies have no environment, and do not count. Kernels of other servers on this machine are recognized by the folder
    of their resource file, and left out.
    """
    found: dict[str, LiveKernel] = {}
    for pid, environment in _environments():
        kernel_id = environment.get(KERNEL_ID)
        is_ours = environment.get(RESOURCE_FILE, "").startswith(f"{data_folder}/")
        if kernel_id and is_ours and kernel_id not in found:
            found[kernel_id] = LiveKernel(
                kernel_id=kernel_id,
                pid=pid,
                visible=tuple(id for id in environment.get(VISIBLE, "").split(",") if id),
                shares=_shares(environment.get(SHARES, "{}")),
            )
    return found


def kill_mentioning(text: str) -> int:
    """Kill every process with the text in its command line or environment, and return their number.

    They have done their last write when it returns; processes that do not end are given up after 10 seconds.

    Args:
        text: a text that occurs in no other process: the path of a temporary folder.
    """
    killed: set[int] = set()
    given_up = time.monotonic() + KILL_S_MAX
    # Repeated until none is found: a killed process may have started another one just before.
    while (pids := _mentioning(text)) and time.monotonic() < given_up:
        for pid in pids - killed:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed |= pids
        time.sleep(0.005)
    return len(killed)


def _shares(text: str) -> dict[str, int]:
    amounts = {id: parse_amount("cuda.shares", amount) for id, amount in json.loads(text).items()}
    return {id: amount for id, amount in amounts.items() if isinstance(amount, int)}


def _environments() -> Iterator[tuple[int, dict[str, str]]]:
    for pid in _pids():
        pairs = (entry.partition(b"=") for entry in _read(pid, "environ").split(b"\0"))
        yield pid, {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs if name}


def _mentioning(text: str) -> set[int]:
    needle = text.encode()
    found = {pid for pid in _pids() if needle in _read(pid, "cmdline") or needle in _read(pid, "environ")}
    return found - {os.getpid()}


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir(PROC) if entry.isdecimal()]


def _read(pid: int, name: str) -> bytes:
    """A file of /proc/PID; empty when the process is gone or belongs to another account."""
    try:
        return (PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""


QUIET_S_MAX: Final = 20.0
"""Maximum wait for two answers with the same revision."""
POLL_S: Final = 0.005


@dataclass(slots=True, kw_only=True)
class MapCheck:
    """Compares server and processes, and counts the comparisons."""

    client: Client
    data_folder: Path
    """The server's data folder; its kernels are recognized by it."""
    compared: int = 0
    from_processes_alone: int = 0
    """Comparisons in which every share came from a live process, and there was at least one."""
    differences: list[str] = field(default_factory=list)

    async def compare(self) -> tuple[ClusterNow, dict[str, LiveKernel]]:
        """Compare every agent's map at one revision, and return the state that was compared."""
        cluster, live = await self._consistent_view()
        self.compared += 1
        held = {kernel.id for agent in cluster.agents for kernel in agent.kernels}
        if held and held == live.keys():
            self.from_processes_alone += 1
        self.differences += [f"event {cluster.revision}: {text}" for text in differences(cluster, live)]
        return cluster, live

    async def _consistent_view(self) -> tuple[ClusterNow, dict[str, LiveKernel]]:
        deadline = asyncio.get_running_loop().time() + QUIET_S_MAX
        before = await read_cluster(self.client)
        while True:
            live = live_kernels(self.data_folder)
            after = await read_cluster(self.client)
            settled = before.revision == after.revision and not _missing(after, live)
            if settled or asyncio.get_running_loop().time() > deadline:
                return after, live
            before = after
            await asyncio.sleep(POLL_S)


def differences(cluster: ClusterNow, live: Mapping[str, LiveKernel]) -> list[str]:
    """All differences between the server's answer and the live processes."""
    held = {kernel.id for agent in cluster.agents for kernel in agent.kernels}
    found = [
        f"{kernel_id} runs (pid {live[kernel_id].pid}) but holds nothing" for kernel_id in sorted(live.keys() - held)
    ]
    found += [f"{kernel_id} is running but has no process" for kernel_id in _missing(cluster, live)]
    for agent in cluster.agents:
        for kernel in agent.kernels:
            found += _grant_differences(kernel, live.get(kernel.id))
        found += _sum_differences(agent, cluster, live)
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


def _sum_differences(agent: AgentNow, cluster: ClusterNow, live: Mapping[str, LiveKernel]) -> list[str]:
    total = dict.fromkeys(agent.alloc_map, 0)
    for other in cluster.agents:
        for kernel in other.kernels if other.node_id == agent.node_id else ():
            process = live.get(kernel.id)
            for device, amount in (process.shares if process else kernel.shares).items():
                if other.id == agent.id or device in agent.alloc_map:
                    total[device] = total.get(device, 0) + amount
    return [
        f"{agent.id}: the map says {format_milli(agent.alloc_map.get(device, 0))} of {device}, "
        f"the processes {format_milli(amount)}"
        for device, amount in total.items()
        if amount != agent.alloc_map.get(device, 0)
    ]
