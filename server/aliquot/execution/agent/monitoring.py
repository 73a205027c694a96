"""Monitoring: periodic readings of devices and kernels, GPU memory checks, output limits, device changes."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

from aliquot.execution.agent.config import AgentConfig
from aliquot.execution.agent.gpu_memory import (
    MemoryPolicy,
    MemoryUse,
    MemoryVerdict,
    MemoryWatch,
    memory_uses,
    with_jobs_marked,
)
from aliquot.execution.agent.host_use import measure
from aliquot.execution.agent.kernels import KernelHandle
from aliquot.execution.agent.logs import OutputLimit
from aliquot.execution.devices.device_set import DeviceSet
from aliquot.execution.devices.plugin import DeviceUse
from aliquot_schema.async_tasks import Worker
from aliquot_schema.cluster.launching import AgentMessage, DevicesChanged, Inventory, NewReadings
from aliquot_schema.ids import DeviceId, KernelId, SlotName
from aliquot_schema.resources.devices import Device, DeviceHealth, DeviceReading, ResourceSpec
from aliquot_schema.resources.leases import HostUse
from aliquot_schema.resources.slots import MILLI, is_accelerator


def device_uses(
    spec: ResourceSpec, *, devices: Mapping[DeviceId, Device], cpu_s: float, alive_s: float
) -> Iterable[DeviceUse]:
    """One entry per known device of a resource spec."""
    shares: dict[DeviceId, int] = {}
    for slot, amounts in spec.items():
        for id, amount in amounts.items():
            if id in devices:
                shares[id] = shares.get(id, 0) + share_milli(devices[id], slot=slot, amount=amount)
    return [DeviceUse(device_id=id, share_milli=share, cpu_s=cpu_s, alive_s=alive_s) for id, share in shares.items()]


def share_milli(device: Device, *, slot: SlotName, amount: int) -> int:
    """An amount of a slot as thousandths of the device; an accelerator's budget is in thousandths already."""
    taken = amount * device.costs.get(slot, 0)
    return taken if is_accelerator(slot) else taken * MILLI // device.budget


_log = logging.getLogger(__name__)


class Monitor:
    """Measuring loop of one agent."""

    def __init__(
        self,
        config: AgentConfig,
        *,
        devices: DeviceSet,
        worker: Worker,
        running: Callable[[], Iterable[KernelHandle]],
        held: Callable[[], Collection[DeviceId]],
        inventory: Callable[[], Awaitable[Inventory]],
        now_us: Callable[[], int],
        send: Callable[[AgentMessage], None],
        on_verdict: Callable[[MemoryVerdict], Awaitable[None]],
        on_measured: Callable[[Sequence[KernelHandle]], Awaitable[None]],
        limit: OutputLimit,
        refresh_images: Callable[[], bool],
        copy_fault: Callable[[], str | None],
    ) -> None:
        """
        Args:
            held: the devices held by kernels.
            on_verdict: called for kernels that start or stop exceeding their share of GPU memory.
            on_measured: called for the running kernels, after each measurement.
            limit: applied to the outputs of running kernels.
            refresh_images: called with the devices; whether the images changed.
            copy_fault: why results cannot be copied; None = they are.
        """
        self._config = config
        self._devices = devices
        self._worker = worker
        self._running = running
        self._held = held
        self._inventory = inventory
        self._now_us = now_us
        self._send = send
        self._on_verdict = on_verdict
        self._memory = MemoryWatch()
        self._limit = limit
        self._refresh_images = refresh_images
        self._copy_fault = copy_fault
        self._on_measured = on_measured

    async def run(self) -> None:
        """Measure until cancelled. Errors are logged; the next interval tries again."""
        discovered_at = time.monotonic()
        while True:
            await asyncio.sleep(self._config.readings_interval_s)
            try:
                await self.measure()
                if time.monotonic() - discovered_at >= self._config.devices_interval_s or self._is_released():
                    discovered_at = time.monotonic()
                    await self.refresh_devices()
            except Exception:
                _log.exception("agent %s could not measure its devices", self._config.id)

    async def measure(self) -> None:
        """Read every device and kernel once, report the readings, and compare kernels' GPU memory with their shares."""
        kernels = [kernel for kernel in self._running() if kernel.shim_pid is not None]
        readings, uses, host_uses = await self._worker.run(self._read, kernels)
        shortage = await self._worker.run(self._check_disk, kernels)
        self._send(
            NewReadings(
                agent_id=self._config.id,
                at_us=self._now_us(),
                readings=readings,
                disk_shortage=shortage,
                host_uses=host_uses,
                copy_fault=self._copy_fault(),
            )
        )
        await self._on_measured(kernels)
        self._memory.forget({kernel.kernel_id for kernel in kernels})
        for verdict in self._memory.judge(uses):
            await self._on_verdict(verdict)

    async def refresh_devices(self) -> None:
        """Discover the devices and the images again, and report any change."""
        before = self._devices.known()
        await self._worker.run(self._devices.discover, held=self._held())
        if await self._worker.run(self._refresh_images) or self._devices.known() != before:
            self._send(DevicesChanged(inventory=await self._inventory()))

    def _is_released(self) -> bool:
        """Whether a leaving device has no holder any more."""
        leaving = [device.id for device in self._devices.devices() if device.health is DeviceHealth.LEAVING]
        return bool(leaving) and not set(leaving) <= set(self._held())

    def _check_disk(self, kernels: Sequence[KernelHandle]) -> str | None:
        for kernel in kernels:
            self._limit.apply(kernel.folder.output)
        return self._config.disk.shortage(self._config.folder)

    def _read(
        self, kernels: Sequence[KernelHandle]
    ) -> tuple[tuple[DeviceReading, ...], tuple[MemoryUse, ...], Mapping[KernelId, HostUse]]:
        known = self._devices.known()
        now = time.monotonic()
        host_uses = measure(kernels, now=now)
        uses: list[DeviceUse] = []
        for kernel in kernels:
            cpu_s = host_uses[kernel.kernel_id].cpu_ms / 1000
            uses += device_uses(kernel.spec, devices=known, cpu_s=cpu_s, alive_s=now - kernel.seen_at)
        readings = with_jobs_marked(self._devices.readings(uses), kernels)
        watched = self._config.memory_policy is not MemoryPolicy.OFF
        over = memory_uses(kernels, readings, devices=known) if watched else ()
        return readings, over, host_uses
