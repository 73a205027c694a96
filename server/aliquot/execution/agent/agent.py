"""Agent core: accepts launch orders, starts and stops kernels, and reports on them. Independent of the transport."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from functools import partial
from math import inf
from typing import Final

from aliquot.execution.agent.agent_folder import AgentFolder
from aliquot.execution.agent.config import AgentConfig
from aliquot.execution.agent.device_health import ExporterFaults, HealthWatch, NvmlFaults
from aliquot.execution.agent.gpu_memory import CODE, MemoryPolicy, MemoryVerdict
from aliquot.execution.agent.inventory import describe, log_unusable_devices
from aliquot.execution.agent.job_user import account_exists
from aliquot.execution.agent.kernel_watch import KernelWatch, find_leftovers, kill_leftovers
from aliquot.execution.agent.kernels import KernelHandle, KernelTable, read_kernels
from aliquot.execution.agent.launching import Launching
from aliquot.execution.agent.logs import OutputLimit, follow
from aliquot.execution.agent.monitoring import Monitor
from aliquot.execution.agent.node_notices import NodeNotices
from aliquot.execution.agent.preparation import Preparation
from aliquot.execution.agent.results.sending import Results, ResultStream
from aliquot.execution.agent.retention import EndedKernels, OldResults
from aliquot.execution.agent.shim_client import check_original, forward, set_limit, stop_or_close, stop_with_message
from aliquot.execution.agent.spawner_process import ShimOutcome, SpawnerProcess
from aliquot.execution.agent.streams import SocketStream, open_stream
from aliquot.execution.agent.workspaces.cache import WorkspaceStream
from aliquot.execution.devices.device_set import DeviceSet
from aliquot_schema.async_tasks import Worker
from aliquot_schema.cluster.launching import (
    AgentMessage,
    DevicesChanged,
    Inventory,
    KernelChanged,
    KernelReport,
    LaunchOrder,
    LogChunk,
)
from aliquot_schema.cluster.streams import StreamTarget, target_fault
from aliquot_schema.errors import InvalidRequest, NotFound, Unavailable
from aliquot_schema.ids import DeviceId, KernelId
from aliquot_schema.resources.devices import Device

_SIGNAL_MAX: Final = 31
_log: Final = logging.getLogger(__name__)


class AgentCore:
    """One agent of this host. Runs in one event loop; kernels outlive it."""

    def __init__(self, config: AgentConfig, *, devices: DeviceSet, now_us: Callable[[], int]) -> None:
        """Nothing is read or started before `open`.

        Args:
            now_us: wall time, microseconds UTC.
        """
        self.config = config
        self._worker = Worker(f"agent-{config.id}")
        self._folder = AgentFolder(config.folder)
        self._devices, self._notices = devices, NodeNotices(config.notices)
        self._kernels = KernelTable()
        limit = OutputLimit(config.disk.output_bytes_max)
        self._ended = _ended_kernels(config, folder=self._folder, limit=limit)
        self._results = Results(config.id, folder=self._folder, rules=config.disk)
        self._forgetting = asyncio.Lock()
        self._written: tuple[Device, ...] = ()
        """The devices as stored in the folder."""
        self._preparation = Preparation(
            config, folder=self._folder, device_environment=devices.environment, device_gates=devices.gates
        )
        self._launching = Launching(
            config,
            folder=self._folder,
            devices=self._devices,
            preparation=self._preparation,
            worker=self._worker,
            kernels=self._kernels,
            now_us=now_us,
        )
        self._spawner = SpawnerProcess(
            python=config.python,
            log=self._folder.spawner_log,
            on_outcome=self._on_outcome,
            on_restart=self._launching.retry_pending,
        )
        self._watch = KernelWatch(
            config,
            worker=self._worker,
            now_us=now_us,
            report=self._send_report,
            retry_start=self._launching.retry_start,
            clean=self._preparation.clean,
            on_container_end=self._preparation.confinement.on_container_end,
            checkpoints=self._preparation.checkpoints,
        )
        self._launching.join(spawner=self._spawner, watch=self._watch)
        self._monitor = self._monitor_of(limit=limit, now_us=now_us)
        self._health = _health_of(config, held=lambda: self._kernels.holders().keys())
        self._messages: asyncio.Queue[AgentMessage | None] = asyncio.Queue()
        self._is_open = False

    def _monitor_of(self, *, limit: OutputLimit, now_us: Callable[[], int]) -> Monitor:
        """The measuring loop, once everything that it calls is made."""
        return Monitor(
            self.config,
            devices=self._devices,
            worker=self._worker,
            running=self._kernels.running,
            held=lambda: self._kernels.holders().keys(),
            inventory=self.inventory,
            now_us=now_us,
            send=self._send_message,
            on_verdict=self._on_verdict,
            on_measured=self._watch.look_for_checkpoints,
            limit=limit,
            refresh_images=self._preparation.refresh_images,
            copy_fault=self._results.copy_fault,
        )

    @property
    def pause_at(self) -> str | None:
        """For tests only: step at which shims requested from now on stop themselves, see `spawner.order`."""
        return self._launching.pause_at

    @pause_at.setter
    def pause_at(self, step: str | None) -> None:
        self._launching.pause_at = step

    async def open(self) -> Inventory:
        """Lock the folder, load the kernels in it, and start accepting orders.

        Raises:
            Unavailable: another agent uses the folder, or it is a copy of one whose kernels run.
            InvalidRequest, Forbidden: no account is usable for jobs.
            DeviceFileError: a plugin's configuration names a device that does not exist.
        """
        self._is_open = True
        try:
            await self._worker.run(self._folder.open)
            kernels = await self._worker.run(read_kernels, self._folder)
            await self._worker.run(check_original, self._folder.path, kernels, boot_id=self.config.node.boot_id)
            await self._worker.run(self._preparation.inspect_host)
            await self._notices.refresh()
            await self._worker.run(self._health.open)
            self._devices.recall(await self._worker.run(self._former_devices))
            await self._worker.run(self._devices.discover)
            self._launching.restore_epoch(await self._worker.run(self._folder.read_epoch))
            self._spawner.start()
            await self._worker.run(self._ended.open)
            for kernel in kernels:
                self._kernels.add(kernel)
                self._watch.reconcile(kernel)
            inventory = await self.inventory()
            log_unusable_devices(self.config.id, self._devices.known(), self._kernels.holders())
        except BaseException:
            await self.close()
            raise
        self._results.start()
        self._worker.spawn(self._monitor.run())
        self._worker.spawn(self._sweep_forever())
        self._worker.spawn(self._notices.follow(self._tell_inventory))
        if self._devices.has_driver or self.config.health.exporter is not None:
            self._worker.spawn(self._health.follow(tell=self._tell_inventory))
        return inventory

    async def close(self) -> None:
        """Release the folder, the devices and the spawner; kernels keep running."""
        if not self._is_open:
            return
        self._is_open = False
        for kernel in self._kernels:
            self._watch.forget(kernel)
        await self._spawner.close()
        await self._results.close()
        await self._worker.close()
        self._devices.close()
        self._preparation.confinement.secrets.close()
        self._folder.close()
        self._messages.put_nowait(None)

    async def reports(self) -> AsyncIterator[AgentMessage]:
        """The agent's messages, in order, until it is closed. Supports one reader."""
        while (message := await self._messages.get()) is not None:
            yield message

    async def launch(self, orders: Sequence[LaunchOrder]) -> None:
        """Accept orders; results arrive through `reports`. A known kernel is not started again.

        Raises:
            Unavailable: the agent is closed.
        """
        self._check_open()
        await self._launching.accept(orders)

    async def check_epoch(self, epoch: int) -> None:
        """Store the leader's epoch durably; orders of older leaders are refused from now on.

        Raises:
            StateConflict: a later epoch was seen.
        """
        await self._launching.check_epoch(self.config.id, epoch)

    async def stop(self, kernel_id: KernelId, *, epoch: int, grace_ms: int) -> None:
        """Stop a kernel, or prevent its start. The result arrives through `reports`.

        Raises:
            Unavailable: the agent is closed, cannot write to its disk, or cannot kill the processes of a kernel whose
                folder is missing.
            StateConflict: the epoch is over.
        """
        self._check_open()
        await self._launching.check_epoch(kernel_id, epoch, is_stop=True)
        kernel = self._kernels.get(kernel_id)
        if kernel is None:
            kernel = await self._handle_unknown(kernel_id)
        await kernel.prepared.wait()
        try:
            asked = await self._worker.run(
                stop_or_close,
                kernel,
                boot_id=self.config.node.boot_id,
                grace_ms=grace_ms,
                drafts=self._folder.drafts,
            )
        except OSError as error:
            raise Unavailable(f"agent {self.config.id} cannot write to its disk: {error}") from error
        if not asked:
            self._watch.reconcile(kernel)

    async def send_signal(self, kernel_id: KernelId, *, epoch: int, signal: int) -> None:
        """Send a signal to the kernel's main process.

        Raises:
            Unavailable: the agent is closed.
            InvalidRequest: the signal is not one of 1..31.
            NotFound: the kernel is not running here.
            StateConflict: the epoch is over.
        """
        self._check_open()
        if not 1 <= signal <= _SIGNAL_MAX:
            raise InvalidRequest(f"signal is {signal}; 1 to {_SIGNAL_MAX} is allowed", field="signal")
        await self._launching.check_epoch(kernel_id, epoch)
        kernel = self._kernels.get(kernel_id)
        boot_id = self.config.node.boot_id
        if kernel is None or not await self._worker.run(forward, kernel, boot_id=boot_id, number=signal):
            raise NotFound(f"kernel {kernel_id} is not running here", kind="kernel", id=kernel_id)
        kernel.told_at = -inf  # what it saves now is reported without a delay

    async def set_limit(self, kernel_id: KernelId, *, epoch: int, time_limit_ms: int) -> None:
        """Change the time limit of a kernel, in milliseconds since its start. Raises as `send_signal` does."""
        self._check_open()
        if time_limit_ms < 1:
            raise InvalidRequest(f"time_limit_ms is {time_limit_ms}; at least 1 is allowed", field="time_limit_ms")
        await self._launching.check_epoch(kernel_id, epoch)
        kernel, config = self._kernels.get(kernel_id), self.config
        work = partial(set_limit, boot_id=config.node.boot_id, time_limit_ms=time_limit_ms, agent_id=config.id)
        if kernel is None or not await self._worker.run(work, kernel):
            raise NotFound(f"kernel {kernel_id} is not running here with a time limit", kind="kernel", id=kernel_id)

    async def has_account(self, account: str) -> bool:
        """Whether this host has a Unix account."""
        return await asyncio.to_thread(account_exists, account)

    async def inventory(self) -> Inventory:
        """The agent's current state: devices are discovered again, resource specs read from their files.

        Raises:
            Unavailable: the agent is closed.
        """
        self._check_open()
        found = await self._worker.run(
            describe,
            self.config,
            devices=self._devices,
            notices=self._notices.attributes,
            faults=self._health.faults,
            capabilities=self._preparation.capabilities(),
            kernels=[kernel for kernel in self._kernels if kernel.prepared.is_set()],
        )
        if found.agent.devices != self._written:
            await self._worker.run(self._write_devices, found.agent.devices)
        return found

    async def follow_log(self, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        """The kernel's output from a byte offset on; ends with a chunk that has `at_end`.

        Raises:
            Unavailable: the agent is closed.
            NotFound: this kernel has no output.
            InvalidRequest: the offset is negative.
        """
        self._check_open()
        kernel = self._kernels.get(kernel_id)
        folder = self._folder.kernel(kernel_id) if kernel is None else kernel.folder
        if kernel is None and not folder.forgotten.exists():
            raise NotFound(f"kernel {kernel_id} is not known here", kind="kernel", id=kernel_id)
        try:
            async for chunk in follow(
                folder.output, offset=offset, has_ended=lambda: kernel is None or kernel.has_ended
            ):
                yield chunk
                self._check_open()
        except (FileNotFoundError, PermissionError):
            raise NotFound(f"kernel {kernel_id} has no output", kind="log", id=kernel_id) from None

    async def open_stream(
        self, kernel_id: KernelId, target: StreamTarget
    ) -> SocketStream | ResultStream | WorkspaceStream:
        """Connect to a terminal or a port of a kernel, read results of its session, or take its workspace.

        Raises:
            InvalidRequest: the target is invalid.
            NotFound: the kernel is not running here, none of its processes listens on the port, or no such file.
            Unavailable: the agent is closed, or the terminal cannot be opened.
        """
        self._check_open()
        fault = target_fault(target)
        if fault is not None:
            raise InvalidRequest(fault, field="target")
        if target.files is not None:
            return await self._results.open(self._folder.kernel(kernel_id), target.files)
        if target.workspace is not None:
            return WorkspaceStream(self._preparation.workspaces, target.workspace, worker=self._worker)
        kernel = self._kernels.get(kernel_id)
        if kernel is None:
            raise NotFound(f"kernel {kernel_id} is not running here", kind="kernel", id=kernel_id)
        return await open_stream(kernel, target, boot_id=self.config.node.boot_id)

    async def forget(self, kernel_ids: Sequence[KernelId]) -> None:
        """Stop reporting kernels whose end the server has stored. Kernels that have not ended are skipped.

        Their outputs stay readable until retention deletes them; orders and stops for them are answered as before.

        Raises:
            Unavailable: the agent is closed.
        """
        self._check_open()
        known = [kernel for kernel_id in kernel_ids if (kernel := self._kernels.get(kernel_id)) is not None]
        ended = [kernel.kernel_id for kernel in known if kernel.has_ended]
        async with self._forgetting:
            await self._worker.run(self._ended.add, ended)
        for kernel_id in ended:  # last: a kernel neither in the table nor marked would look unknown in between
            self._kernels.remove(kernel_id)

    def note_eviction(self, signal: str) -> None:
        """Tell the server that this node is about to be taken away, as a signal to the agent says."""
        self._notices.note_signal(signal)

    async def _tell_inventory(self) -> None:
        try:
            self._send_message(DevicesChanged(inventory=await self.inventory()))
        except Exception:
            _log.exception("agent %s could not describe its devices; it does so with their next change", self.config.id)

    async def _sweep_forever(self) -> None:
        """Delete expired outputs and results periodically. Large results take minutes; only `forget` waits for that."""
        while True:
            await asyncio.sleep(self.config.devices_interval_s)
            try:
                async with self._forgetting:
                    await self._worker.run(self._ended.sweep)
            except Exception:
                _log.exception("agent %s could not delete expired outputs and results; it tries again", self.config.id)

    def _check_open(self) -> None:
        if not self._is_open:
            raise Unavailable(f"agent {self.config.id} is not open")

    async def _handle_unknown(self, kernel_id: KernelId) -> KernelHandle:
        """Stop a kernel without a folder: the folder may have been deleted, so its processes are found and killed."""
        group = self._preparation.group_of(kernel_id)
        if await self._worker.run(find_leftovers, kernel_id, group=group):
            patience_s = self.config.end_patience_s
            if not await self._worker.run(kill_leftovers, kernel_id, group=group, patience_s=patience_s):
                raise Unavailable(f"the folder of kernel {kernel_id} is missing, and its processes cannot be killed")
        known = self._kernels.get(kernel_id)
        if known is not None:  # launched in the meantime
            return known
        kernel = KernelHandle(folder=self._folder.kernel(kernel_id))
        kernel.prepared.set()
        self._kernels.add(kernel)
        return kernel

    async def _on_verdict(self, verdict: MemoryVerdict) -> None:
        """Report that a kernel exceeds its GPU memory or no longer does; stop it if that is the policy."""
        kernel = self._kernels.get(verdict.kernel_id)
        if kernel is None or kernel.has_ended:
            return
        self._watch.annotate(kernel, code=CODE if verdict.message else None, message=verdict.message)
        if verdict.message and self.config.memory_policy is MemoryPolicy.STOP and kernel.order is not None:
            grace_ms = kernel.order.grace_ms
            await self._worker.run(
                stop_with_message, kernel, verdict.message, boot_id=self.config.node.boot_id, grace_ms=grace_ms
            )

    def _former_devices(self) -> tuple[Device, ...]:
        """The devices of the agent's previous run; held ones that are no longer configured are reported as leaving."""
        try:
            self._written = self._folder.read_devices()
        except (OSError, ValueError) as error:
            _log.warning("agent %s cannot read the stored list of its devices: %s", self.config.id, error)
        return self._written

    def _write_devices(self, devices: tuple[Device, ...]) -> None:
        try:
            self._folder.write_devices(devices)
        except (OSError, TypeError) as error:  # TypeError: an amount above 64 bits, which the server refuses
            _log.warning("agent %s cannot store the list of its devices: %s", self.config.id, error)
            return
        self._written = devices

    def _on_outcome(self, outcome: ShimOutcome) -> None:
        kernel = self._kernels.get(outcome.kernel_id)
        if kernel is not None:
            self._watch.on_outcome(kernel, outcome)

    def _send_message(self, message: AgentMessage) -> None:
        self._messages.put_nowait(message)

    def _send_report(self, report: KernelReport) -> None:
        self._results.note(report)
        self._send_message(KernelChanged(agent_id=self.config.id, report=report))


def _ended_kernels(config: AgentConfig, *, folder: AgentFolder, limit: OutputLimit) -> EndedKernels:
    return EndedKernels(
        folder,
        kept_s=config.disk.outputs_kept_s,
        kept_max=config.ended_kept_max,
        limit=limit,
        results=OldResults(folder, kept_s=config.disk.results_kept_s),
    )


def _health_of(config: AgentConfig, *, held: Callable[[], Collection[DeviceId]]) -> HealthWatch:
    url = config.health.exporter
    source = NvmlFaults(python=config.python) if url is None else ExporterFaults(url)
    return HealthWatch(config.health, folder=config.folder, held=held, source=source)
