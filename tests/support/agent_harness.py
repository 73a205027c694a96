"""An agent with real processes for tests: two small devices, a folder of its own, and a record of its reports."""

import asyncio
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from aliquot.execution.agent.agent import AgentCore
from aliquot.execution.agent.config import AgentConfig
from aliquot.execution.devices.device_set import DeviceSet
from aliquot.execution.devices.node import node_identity
from aliquot.execution.devices.plugin import DeviceUse
from aliquot.execution.executors import LocalExecutor
from aliquot_schema.cluster.launching import (
    AgentMessage,
    AgentSilent,
    KernelChanged,
    KernelPhase,
    KernelReport,
    LaunchOrder,
)
from aliquot_schema.ids import AgentId, DeviceId, KernelId, SessionId, SlotName, kernel_id
from aliquot_schema.resources.devices import Device, DeviceReading, ResourceSpec
from aliquot_schema.resources.slots import SlotType

PATIENCE_S: Final = 30.0
SHARES: Final = SlotName("toy.shares")
TOYS: Final = (DeviceId("toy-a"), DeviceId("toy-b"))


class ToyPlugin:
    """Two devices that answer from the agent's record of their holders."""

    kind = "toy"

    def __init__(self) -> None:
        self.uses: tuple[DeviceUse, ...] = ()
        self.present = TOYS

    def discover(self) -> tuple[Device, ...]:
        return tuple(
            Device(
                id=id,
                name=f"toy{TOYS.index(id)}",
                kind="toy",
                model="Toy",
                budget=1000,
                costs={SHARES: 1},
                quanta={SHARES: 10},
                memory_bytes=1 << 30,
            )
            for id in self.present
        )

    def slot_types(self) -> Mapping[SlotName, SlotType]:
        return {SHARES: SlotType.COUNT}

    def attributes(self) -> Mapping[str, str]:
        return {"toy.version": "1"}

    def readings(self, uses: Sequence[DeviceUse]) -> tuple[DeviceReading, ...]:
        self.uses = tuple(uses)
        return tuple(DeviceReading(device_id=use.device_id, utilization_pct=use.cpu_s) for use in uses)

    def environment(self, spec: ResourceSpec) -> Mapping[str, str]:
        return {"TOY_VISIBLE": ",".join(sorted(spec.get(SHARES, {})))}

    def close(self) -> None:
        pass


class MemoryPlugin(ToyPlugin):
    """One gigabyte of the host's memory."""

    kind = "mem"

    def discover(self) -> tuple[Device, ...]:
        size = 1 << 30
        device = Device(
            id=DeviceId("mem0"),
            name="mem0",
            kind="mem",
            model="Memory",
            budget=size,
            costs={SlotName("mem"): 1},
            quanta={},
            memory_bytes=size,
        )
        return (device,)

    def slot_types(self) -> Mapping[SlotName, SlotType]:
        return {SlotName("mem"): SlotType.BYTES}

    def environment(self, spec: ResourceSpec) -> Mapping[str, str]:
        return {}


def new_kernel(*, attempt: int = 1, rank: int = 0) -> KernelId:
    """A kernel of a fresh session."""
    return kernel_id(SessionId(f"ses_{uuid.uuid4()}"), attempt=attempt, rank=rank)


def order(*argv: str, kernel: KernelId | None = None, **fields: object) -> LaunchOrder:
    """An order for a kernel with 0.2 of the first toy and a short stop timeout."""
    plain = LaunchOrder(
        kernel_id=kernel or new_kernel(),
        epoch=1,
        argv=argv,
        environment={},
        working_directory=None,
        spec={SHARES: {TOYS[0]: 200}},
        grace_ms=300,
    )
    return replace(plain, **fields)  # type: ignore[arg-type] # the fields' own types


def shell(text: str, **fields: object) -> LaunchOrder:
    """An order that runs a shell string."""
    return order("/bin/sh", "-c", text, **fields)  # type: ignore[arg-type] # the fields' own types


class AgentHarness:
    """An open agent, and all messages that it has sent."""

    def __init__(self, config: AgentConfig) -> None:
        self.config = config
        self.plugin = ToyPlugin()
        self.messages: list[AgentMessage] = []
        self.message_arrived = asyncio.Condition()
        self._new_core()

    def _new_core(self) -> None:
        self.core = AgentCore(
            self.config, devices=DeviceSet([self.plugin, MemoryPlugin()]), now_us=lambda: time.time_ns() // 1000
        )

    async def open(self) -> None:
        self.inventory = await self.core.open()
        self._reader = asyncio.create_task(self._read(self.core))

    async def close(self) -> None:
        await self.core.close()
        await self._reader

    async def restart(self) -> None:
        """A restart of the agent, without a new process."""
        await self.close()
        await self.start_again()

    async def start_again(self) -> None:
        """The second half of a restart: a new core on the same folder."""
        self.messages.clear()
        self._new_core()
        await self.open()

    async def _read(self, core: AgentCore) -> None:
        async for message in core.reports():
            async with self.message_arrived:
                self.messages.append(message)
                self.message_arrived.notify_all()

    @property
    def spawner_pid(self) -> int | None:
        """Pid of the process that forks the shims."""
        return self.core._spawner.pid

    def reports(self, kernel: KernelId) -> list[KernelReport]:
        """The reports of a kernel, oldest first."""
        return [m.report for m in self.messages if isinstance(m, KernelChanged) and m.report.kernel_id == kernel]

    async def wait_for_report(self, kernel: KernelId, *phases: KernelPhase) -> KernelReport:
        """Wait until one of the phases is reported; the newest such report."""

        def found() -> list[KernelReport]:
            return [report for report in self.reports(kernel) if report.phase in phases]

        async with self.message_arrived:
            await asyncio.wait_for(self.message_arrived.wait_for(found), PATIENCE_S)
        return found()[-1]

    async def wait_for_end(self, kernel: KernelId) -> KernelReport:
        return await self.wait_for_report(kernel, KernelPhase.EXITED, KernelPhase.REFUSED)

    async def run(self, asked: LaunchOrder) -> KernelReport:
        """Launch, and wait for the end."""
        await self.core.launch([asked])
        return await self.wait_for_end(asked.kernel_id)

    def folder(self, kernel: KernelId) -> Path:
        return self.config.folder / "kernels" / kernel

    def output(self, kernel: KernelId) -> str:
        return (self.folder(kernel) / "output.log").read_text()


def agent_config(folder: Path, **fields: object) -> AgentConfig:
    """A fast agent in a folder."""
    plain = AgentConfig(
        id=AgentId("agent-1"),
        node=node_identity(),
        folder=folder,
        readings_interval_s=0.1,
        devices_interval_s=0.1,
        start_patience_s=0.2,
    )
    return replace(plain, **fields)  # type: ignore[arg-type] # the fields' own types


async def wait_until(fact: Callable[[], bool]) -> None:
    """Wait for a condition outside of the event loop."""

    async def watch() -> None:
        while not fact():  # noqa: ASYNC110 -- another process changes the state, without an event
            await asyncio.sleep(0.01)

    await asyncio.wait_for(watch(), PATIENCE_S)


def is_running(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    return process_state(pid) not in ("", "Z", "X")


def process_state(pid: int) -> str:
    """The letter of /proc/PID/stat; empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def parent_pid(pid: int) -> int:
    """The parent's process id; 0 when there is no such process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def marked_processes(kernel: KernelId) -> list[int]:
    """The living processes that carry a kernel's mark."""
    mark = f"ALIQUOT_ATTEMPT={kernel}".encode()
    return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if mark in _environment(pid)]


def shim_pids(folder: Path) -> list[int]:
    """The living processes that hold a file of this folder open as a lock: the shims below it."""
    return [
        pid
        for pid, links in _opened()
        if any(link.startswith(f"{folder}/kernels/") and link.endswith("/lock") for link in links)
    ]


def processes_with_files_in(folder: Path) -> list[int]:
    """The living processes but this one that have files open below a folder, including stopped ones."""
    found = (pid for pid, links in _opened() if any(link.startswith(f"{folder}/") for link in links))
    return [pid for pid in found if pid != os.getpid()]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _opened() -> Iterator[tuple[int, list[str]]]:
    """Processes, and their open files."""
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
        with suppress(OSError):
            yield pid, [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]


async def restart_agent(executor: LocalExecutor, agent_id: AgentId) -> None:
    """Close an agent and open it again from its files, as after a crash."""
    await executor._close(agent_id)
    executor._messages.put_nowait(AgentSilent(agent_id=agent_id))
    await executor._open(agent_id)
