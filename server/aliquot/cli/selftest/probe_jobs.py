"""Probe jobs: run the CUDA probe as jobs of a real agent, with the environment and limits of every job."""

import asyncio
import inspect
import json
import os
import pwd
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

from msgspec import Struct

from aliquot.clock import SystemClock
from aliquot.execution.agent.agent import AgentCore
from aliquot.execution.agent.config import AgentConfig
from aliquot.execution.agent.gpu_memory import MemoryPolicy
from aliquot.execution.agent.job_user import JobUserPolicy
from aliquot.execution.devices import cuda_probe
from aliquot.execution.devices.device_set import DeviceSet
from aliquot.execution.devices.node import node_identity
from aliquot_schema.cluster.launching import KernelChanged, KernelPhase, KernelReport, LaunchOrder, NewReadings
from aliquot_schema.ids import AgentId, DeviceId, KernelId, SessionId, kernel_id
from aliquot_schema.resources.devices import DeviceReading, ResourceSpec

WAIT_S_MAX: Final = 60.0
MEASURED_S: Final = 0.5
GRACE_MS: Final = 2_000
PROBE: Final = inspect.getsource(cuda_probe)
"""The program's text: a job's account may not be able to read the installed file."""

Condition = Callable[[KernelReport], bool]


class ProbeFailed(Exception):
    """A probe did not run as every job can; the message has the reason."""


class ProbeReading(Struct, frozen=True, kw_only=True):
    """The output of a probe."""

    uuids: tuple[str, ...]
    device_files: tuple[int, ...]

    @classmethod
    def of(cls, printed: str) -> Self:
        """Read the output of a probe.

        Raises:
            ProbeFailed: CUDA failed, or the output is something else.
        """
        try:
            seen: dict[str, Any] = json.loads(printed)
        except ValueError:
            raise ProbeFailed(f"the probe printed {printed[-500:]!r}") from None
        if seen["error"] is not None:
            raise ProbeFailed(f"CUDA: {seen['error']}")
        uuids = tuple(device["uuid"] for device in seen["devices"])
        return cls(uuids=uuids, device_files=tuple(seen["device_files"]))


class ProbeJobs:
    """A private agent, and the probes that it runs."""

    def __init__(self, folder: Path, *, devices: DeviceSet) -> None:
        policy = JobUserPolicy(name=pwd.getpwuid(os.geteuid()).pw_name, allow_root=True)
        self._config = AgentConfig(
            id=AgentId("selftest"),
            node=node_identity(),
            folder=folder,
            job_user=policy,
            memory_policy=MemoryPolicy.STOP,
            readings_interval_s=MEASURED_S,
        )
        self.core = AgentCore(self._config, devices=devices, now_us=SystemClock().now_us)
        self.readings: Mapping[DeviceId, DeviceReading] = {}
        self._reports: dict[KernelId, list[KernelReport]] = {}
        self._changed = asyncio.Condition()
        self._count = 0

    async def inspect(self, spec: ResourceSpec) -> ProbeReading:
        """Run a probe to its end.

        Raises:
            ProbeFailed: it did not end in time, or failed.
        """
        kernel = await self._start(spec, "look")
        await self.until(kernel, lambda report: report.phase is not KernelPhase.STARTED)
        return ProbeReading.of(await self._printed(kernel))

    async def hold(self, spec: ResourceSpec, size: int) -> KernelId:
        """Start a probe that allocates memory, and wait until it has."""
        kernel = await self._start(spec, "hold", str(size))
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S_MAX):
                async for chunk in self.core.follow_log(kernel, offset=0):
                    if b"\n" in chunk.data or chunk.at_end:
                        ProbeReading.of(chunk.data.decode(errors="replace"))
                        return kernel
        raise ProbeFailed("the probe printed nothing")

    async def stop(self, kernel: KernelId) -> None:
        """Stop a probe."""
        await self.core.stop(kernel, epoch=1, grace_ms=GRACE_MS)
        await self.until(kernel, lambda report: report.phase is KernelPhase.EXITED)

    def reports(self, kernel: KernelId) -> list[KernelReport]:
        """The reports about a kernel so far."""
        return self._reports.get(kernel, [])

    async def until(self, kernel: KernelId, condition: Condition) -> KernelReport:
        """Wait for a report that fulfils a condition.

        Raises:
            ProbeFailed: there was none in time.
        """

        def found() -> list[KernelReport]:
            return [report for report in self.reports(kernel) if condition(report)]

        try:
            async with asyncio.timeout(WAIT_S_MAX), self._changed:
                await self._changed.wait_for(found)
        except TimeoutError:
            last = self.reports(kernel)[-1:]
            raise ProbeFailed(f"no further report about a probe within {WAIT_S_MAX:g} s, after {last}") from None
        return found()[0]

    async def measured(self) -> None:
        """Wait for the next readings."""
        before = self.readings
        async with asyncio.timeout(WAIT_S_MAX), self._changed:
            await self._changed.wait_for(lambda: self.readings is not before)

    async def listen(self) -> None:
        """Record what the agent reports, until it is closed."""
        async for message in self.core.reports():
            async with self._changed:
                if isinstance(message, KernelChanged):
                    self._reports.setdefault(message.report.kernel_id, []).append(message.report)
                elif isinstance(message, NewReadings):
                    self.readings = {reading.device_id: reading for reading in message.readings}
                self._changed.notify_all()

    async def _start(self, spec: ResourceSpec, *words: str) -> KernelId:
        self._count += 1
        kernel = kernel_id(SessionId(f"ses_selftest_{self._count}"), attempt=1, rank=0)
        libraries = os.environ.get("LD_LIBRARY_PATH")
        order = LaunchOrder(
            kernel_id=kernel,
            epoch=1,
            argv=(sys.executable, "-I", "-S", "-c", PROBE, *words),
            environment={} if libraries is None else {"LD_LIBRARY_PATH": libraries},
            working_directory=None,
            spec=spec,
            grace_ms=GRACE_MS,
        )
        await self.core.launch([order])
        started = await self.until(kernel, lambda _: True)
        if started.phase is KernelPhase.REFUSED:
            raise ProbeFailed(f"the agent refuses the probe: {started.message}")
        return kernel

    async def _printed(self, kernel: KernelId) -> str:
        data = b"".join([chunk.data async for chunk in self.core.follow_log(kernel, offset=0)])
        return data.decode(errors="replace")


@asynccontextmanager
async def probe_jobs(folder: Path, *, devices: DeviceSet) -> AsyncIterator[ProbeJobs]:
    """Open the agent; at the end stop all probes and close it."""
    jobs = ProbeJobs(folder, devices=devices)
    await jobs.core.open()
    listening = asyncio.create_task(jobs.listen())
    try:
        yield jobs
    finally:
        for kernel in (await jobs.core.inventory()).kernels:
            if kernel.phase is KernelPhase.STARTED:
                with suppress(ProbeFailed):
                    await jobs.stop(kernel.kernel_id)
        await jobs.core.close()
        await listening
