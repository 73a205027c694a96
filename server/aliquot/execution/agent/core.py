"""The agent itself: takes orders, has them carried out, and tells what became of them. Knows no transport."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from aliquot.execution.agent.agent_folder import AgentFolder
from aliquot.execution.agent.config import AgentConfig
from aliquot.execution.agent.ended_kernels import EndedKernels
from aliquot.execution.agent.held_kernel import HeldKernel
from aliquot.execution.agent.kernel_book import KernelBook, read_kernels
from aliquot.execution.agent.kernel_watch import KernelWatch
from aliquot.execution.agent.launching import Launching
from aliquot.execution.agent.logs import follow
from aliquot.execution.agent.measuring import Measuring
from aliquot.execution.agent.memory_watch import CODE, MemoryPolicy, MemoryVerdict
from aliquot.execution.agent.old_results import OldResults
from aliquot.execution.agent.output_limit import OutputLimit
from aliquot.execution.agent.preparation import Preparation
from aliquot.execution.agent.remains import end_remains, find_remains
from aliquot.execution.agent.self_description import describe
from aliquot.execution.agent.spawner_process import ShimOutcome, SpawnerProcess
from aliquot.execution.agent.stopping import close_or_ask, forward, stop_with_words
from aliquot.execution.agent.worker import Worker
from aliquot.execution.devices.device_set import DeviceSet
from aliquot_schema.errors import InvalidRequest, NotFound, Unavailable
from aliquot_schema.ids import KernelId
from aliquot_schema.launching import AgentMessage, Inventory, KernelChanged, KernelReport, LaunchOrder, LogChunk

_SIGNAL_MAX: Final = 31

_log: Final = logging.getLogger(__name__)


class AgentCore:
    """One agent of this host. Lives in one event loop; kernels outlive it."""

    def __init__(self, config: AgentConfig, *, devices: DeviceSet, now_us: Callable[[], int]) -> None:
        """Touches nothing before `open`.

        Args:
            now_us: wall time, microseconds UTC.
        """
        self.config = config
        self._worker = Worker(f"agent-{config.id}")
        self._folder = AgentFolder(config.folder)
        self._devices = devices
        self._book = KernelBook()
        limit = OutputLimit(config.disk.output_bytes_max)
        self._ended = _ended_kernels(config, folder=self._folder, limit=limit)
        self._forgetting = asyncio.Lock()
        self._preparation = Preparation(
            config,
            folder=self._folder,
            device_environment=self._devices.environment,
            device_gates=self._devices.gates,
        )
        self._launching = Launching(
            config,
            folder=self._folder,
            devices=self._devices,
            preparation=self._preparation,
            worker=self._worker,
            book=self._book,
            now_us=now_us,
        )
        self._spawner = SpawnerProcess(
            python=config.python,
            log=self._folder.spawner_log,
            on_outcome=self._heard,
            on_restart=self._launching.start_pending,
        )
        self._watch = KernelWatch(
            config,
            worker=self._worker,
            now_us=now_us,
            tell=self._tell_kernel,
            start_again=self._launching.start_again,
            clean=self._preparation.confinement.clean,
        )
        self._launching.join(spawner=self._spawner, watch=self._watch)
        self._measuring = Measuring(
            config,
            devices=self._devices,
            worker=self._worker,
            running=self._book.running,
            inventory=self.inventory,
            now_us=now_us,
            tell=self._tell,
            judged=self._judged,
            limit=limit,
        )
        self._messages: asyncio.Queue[AgentMessage | None] = asyncio.Queue()
        self._is_open = False

    @property
    def pause_at(self) -> str | None:
        """For tests alone: where the shims that are asked for from now on stop themselves, see `spawner.order`."""
        return self._launching.pause_at

    @pause_at.setter
    def pause_at(self, step: str | None) -> None:
        self._launching.pause_at = step

    @property
    def spawner_pid(self) -> int | None:
        """The process that forks the shims."""
        return self._spawner.pid

    async def open(self) -> Inventory:
        """Take the folder, find the kernels in it, and be ready for orders.

        Raises:
            Unavailable: another agent uses the folder.
            InvalidRequest, Forbidden: there is no account that jobs may run as.
            DeviceFileError: a plugin's configuration names what does not exist.
        """
        await self._worker.run(self._folder.open)
        self._is_open = True
        try:
            await self._worker.run(self._preparation.look_around)
            await self._worker.run(self._devices.discover)
            self._launching.remember_epoch(await self._worker.run(self._folder.read_epoch))
            self._spawner.start()
            await self._worker.run(self._ended.open)
            for kernel in await self._worker.run(read_kernels, self._folder):
                self._book.add(kernel)
                self._watch.settle(kernel)
            inventory = await self.inventory()
        except BaseException:
            await self.close()
            raise
        self._worker.go_on(self._measuring.run())
        self._worker.go_on(self._sweep())
        return inventory

    async def close(self) -> None:
        """Let go of everything; kernels run on."""
        if not self._is_open:
            return
        self._is_open = False
        for kernel in self._book:
            self._watch.forget(kernel)
        await self._spawner.close()
        await self._worker.close()
        self._devices.close()
        self._preparation.confinement.secrets.close()
        self._folder.close()
        self._messages.put_nowait(None)

    async def reports(self) -> AsyncIterator[AgentMessage]:
        """What happens here, in order, until the agent is closed. One reader."""
        while (message := await self._messages.get()) is not None:
            yield message

    async def launch(self, orders: Sequence[LaunchOrder]) -> None:
        """Take orders; what becomes of them is told by `reports`. A kernel that is known is not started again.

        Raises:
            Unavailable: the agent is closed.
        """
        self._check_open()
        await self._launching.take(orders)

    async def check_epoch(self, epoch: int) -> None:
        """Remember the epoch of who leads, durably; from here on older leaders are refused.

        Raises:
            StateConflict: a later one was seen.
        """
        await self._launching.check_epoch(self.config.id, epoch)

    async def stop(self, kernel_id: KernelId, *, epoch: int, grace_ms: int) -> None:
        """Make a kernel end, or never begin. Whether it did is told by `reports`.

        Raises:
            Unavailable: the agent is closed, cannot write to its disk, or cannot end what it finds of a kernel whose
                folder is gone.
            StateConflict: the epoch is over.
        """
        self._check_open()
        await self._launching.check_epoch(kernel_id, epoch)
        kernel = self._book.get(kernel_id)
        if kernel is None:
            kernel = await self._unknown(kernel_id)
        await kernel.prepared.wait()
        try:
            asked = await self._worker.run(
                close_or_ask,
                kernel,
                boot_id=self.config.node.boot_id,
                grace_ms=grace_ms,
                drafts=self._folder.drafts,
            )
        except OSError as error:
            raise Unavailable(f"agent {self.config.id} cannot write to its disk: {error}") from error
        if not asked:
            self._watch.settle(kernel)

    async def send_signal(self, kernel_id: KernelId, *, epoch: int, signal: int) -> None:
        """Send a signal to the kernel's main process.

        Raises:
            Unavailable: the agent is closed.
            InvalidRequest: the signal is not one of 1..31.
            NotFound: the kernel does not run here.
            StateConflict: the epoch is over.
        """
        self._check_open()
        if not 1 <= signal <= _SIGNAL_MAX:
            raise InvalidRequest(f"signal {signal} is not one of 1..{_SIGNAL_MAX}", field="signal")
        await self._launching.check_epoch(kernel_id, epoch)
        kernel = self._book.get(kernel_id)
        boot_id = self.config.node.boot_id
        if kernel is None or not await self._worker.run(forward, kernel, boot_id=boot_id, number=signal):
            raise NotFound(f"kernel {kernel_id} does not run here", kind="kernel", id=kernel_id)

    async def inventory(self) -> Inventory:
        """Everything there is now: devices asked afresh, specs read from their files.

        Raises:
            Unavailable: the agent is closed.
        """
        self._check_open()
        return await self._worker.run(
            describe,
            self.config,
            devices=self._devices,
            capabilities=self._preparation.capabilities(),
            kernels=[kernel for kernel in self._book if kernel.prepared.is_set()],
        )

    async def follow_log(self, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        """The kernel's output from a byte on; ends with a chunk that is `at_end`.

        Raises:
            Unavailable: the agent is closed.
            NotFound: there is no output of this kernel.
            InvalidRequest: the offset is negative.
        """
        self._check_open()
        kernel = self._book.get(kernel_id)
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

    async def forget(self, kernel_ids: Sequence[KernelId]) -> None:
        """Tell no more of kernels whose end somebody else keeps. Their outputs can be read until there is no room for
        them, and an order or a stop for one of them is answered as before. One that has not ended is not forgotten.

        Raises:
            Unavailable: the agent is closed.
        """
        self._check_open()
        known = [kernel for kernel_id in kernel_ids if (kernel := self._book.get(kernel_id)) is not None]
        ended = [kernel.kernel_id for kernel in known if kernel.has_ended]
        async with self._forgetting:
            await self._worker.run(self._ended.add, ended)
        for kernel_id in ended:  # last: what is neither in the book nor marked would be unknown to who asks meanwhile
            self._book.remove(kernel_id)

    async def _sweep(self) -> None:
        """Delete what is too old, again and again, also when nothing runs. On large results that takes minutes: nothing
        waits for it but what is forgotten meanwhile."""
        while True:
            await asyncio.sleep(self.config.devices_interval_s)
            try:
                async with self._forgetting:
                    await self._worker.run(self._ended.sweep)
            except Exception:
                _log.exception("agent %s could not delete what is too old", self.config.id)

    def _check_open(self) -> None:
        if not self._is_open:
            raise Unavailable(f"agent {self.config.id} is not open")

    async def _unknown(self, kernel_id: KernelId) -> HeldKernel:
        """A kernel that no folder tells of. Somebody may have deleted it, so that proves nothing: processes count."""
        group = self._preparation.group_of(kernel_id)
        if await self._worker.run(find_remains, kernel_id, group=group):
            patience_s = self.config.end_patience_s
            if not await self._worker.run(end_remains, kernel_id, group=group, patience_s=patience_s):
                raise Unavailable(f"kernel {kernel_id} has no folder any more, and processes of it cannot be ended")
        known = self._book.get(kernel_id)
        if known is not None:  # it was launched meanwhile
            return known
        kernel = HeldKernel(folder=self._folder.kernel(kernel_id))
        kernel.prepared.set()
        self._book.add(kernel)
        return kernel

    async def _judged(self, verdict: MemoryVerdict) -> None:
        """Say that a kernel takes too much memory, or no longer does; and have it end where that is the policy."""
        kernel = self._book.get(verdict.kernel_id)
        if kernel is None or kernel.has_ended:
            return
        self._watch.remark(kernel, code=CODE if verdict.words else None, words=verdict.words)
        if verdict.words and self.config.memory_policy is MemoryPolicy.STOP and kernel.order is not None:
            grace_ms = kernel.order.grace_ms
            await self._worker.run(
                stop_with_words, kernel, verdict.words, boot_id=self.config.node.boot_id, grace_ms=grace_ms
            )

    def _heard(self, outcome: ShimOutcome) -> None:
        kernel = self._book.get(outcome.kernel_id)
        if kernel is not None:
            self._watch.heard(kernel, outcome)

    def _tell(self, message: AgentMessage) -> None:
        self._messages.put_nowait(message)

    def _tell_kernel(self, report: KernelReport) -> None:
        self._tell(KernelChanged(agent_id=self.config.id, report=report))


def _ended_kernels(config: AgentConfig, *, folder: AgentFolder, limit: OutputLimit) -> EndedKernels:
    return EndedKernels(
        folder,
        kept_s=config.disk.outputs_kept_s,
        kept_max=config.ended_kept_max,
        limit=limit,
        results=OldResults(folder, kept_s=config.disk.results_kept_s),
    )
