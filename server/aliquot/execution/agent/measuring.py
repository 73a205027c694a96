"""Measures the devices again and again, and notices when they change."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

from aliquot.execution.agent.config import AgentConfig
from aliquot.execution.agent.gpu_memory import MemoryUse, memory_uses
from aliquot.execution.agent.held_kernel import HeldKernel
from aliquot.execution.agent.memory_watch import MemoryPolicy, MemoryVerdict, MemoryWatch
from aliquot.execution.agent.output_limit import OutputLimit
from aliquot.execution.agent.usage import device_uses, kernel_cpu_s
from aliquot.execution.agent.worker import Worker
from aliquot.execution.devices.device_set import DeviceSet
from aliquot.execution.devices.plugin import DeviceUse
from aliquot_schema.devices import DeviceReading
from aliquot_schema.launching import AgentMessage, DevicesChanged, Inventory, ReadingsTaken

_log = logging.getLogger(__name__)


class Measuring:
    """One agent's loop."""

    def __init__(
        self,
        config: AgentConfig,
        *,
        devices: DeviceSet,
        worker: Worker,
        running: Callable[[], Iterable[HeldKernel]],
        inventory: Callable[[], Awaitable[Inventory]],
        now_us: Callable[[], int],
        tell: Callable[[AgentMessage], None],
        judged: Callable[[MemoryVerdict], Awaitable[None]],
        limit: OutputLimit,
    ) -> None:
        """
        Args:
            judged: told of kernels that begin or cease to take more memory than their share.
            limit: what outputs are held to.
        """
        self._config = config
        self._devices = devices
        self._worker = worker
        self._running = running
        self._inventory = inventory
        self._now_us = now_us
        self._tell = tell
        self._judged = judged
        self._memory = MemoryWatch()
        self._limit = limit

    async def run(self) -> None:
        """Until it is cancelled. What fails is logged, and tried again the next time."""
        looked_at = time.monotonic()
        while True:
            await asyncio.sleep(self._config.readings_interval_s)
            try:
                await self.measure()
                if time.monotonic() - looked_at >= self._config.devices_interval_s:
                    looked_at = time.monotonic()
                    await self.look()
            except Exception:
                _log.exception("agent %s could not measure its devices", self._config.id)

    async def measure(self) -> None:
        """Take one reading of every device, and hold what kernels have on it against what they were given."""
        kernels = [kernel for kernel in self._running() if kernel.shim_pid is not None]
        readings, uses = await self._worker.run(self._read, kernels)
        shortage = await self._worker.run(self._look_at_disk, kernels)
        self._tell(
            ReadingsTaken(agent_id=self._config.id, at_us=self._now_us(), readings=readings, disk_shortage=shortage)
        )
        self._memory.forget({kernel.kernel_id for kernel in kernels})
        for verdict in self._memory.judge(uses):
            await self._judged(verdict)

    async def look(self) -> None:
        """Tell when a device came, went, or changed its health."""
        before = self._devices.known()
        await self._worker.run(self._devices.discover)
        if self._devices.known() != before:
            self._tell(DevicesChanged(inventory=await self._inventory()))

    def _look_at_disk(self, kernels: Sequence[HeldKernel]) -> str | None:
        for kernel in kernels:
            self._limit.hold(kernel.folder.output)
        return self._config.disk.shortage(self._config.folder)

    def _read(self, kernels: Sequence[HeldKernel]) -> tuple[tuple[DeviceReading, ...], tuple[MemoryUse, ...]]:
        known = self._devices.known()
        now = time.monotonic()
        uses: list[DeviceUse] = []
        for kernel in kernels:
            assert kernel.shim_pid is not None
            cpu_s = kernel_cpu_s(group=kernel.group, shim_pid=kernel.shim_pid)
            uses += device_uses(kernel.spec, devices=known, cpu_s=cpu_s, alive_s=now - kernel.seen_at)
        readings = self._devices.readings(uses)
        watched = self._config.memory_policy is not MemoryPolicy.OFF
        return readings, memory_uses(kernels, readings, devices=known) if watched else ()
