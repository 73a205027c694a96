"""From an order to a request to the spawner: what is refused, what is written first, what is asked again."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from aliquot.execution.agent.admission import Refusal, refuse_stale, refuse_unknown
from aliquot.execution.agent.agent_folder import AgentFolder
from aliquot.execution.agent.config import AgentConfig
from aliquot.execution.agent.held_kernel import HeldKernel
from aliquot.execution.agent.json_files import flush_folder
from aliquot.execution.agent.kernel_book import KernelBook
from aliquot.execution.agent.kernel_watch import KernelWatch
from aliquot.execution.agent.preparation import Preparation
from aliquot.execution.agent.spawner_process import SpawnerProcess
from aliquot.execution.agent.worker import Worker
from aliquot.execution.devices.device_set import DeviceSet
from aliquot_schema.errors import AliquotError, StateConflict, Unavailable
from aliquot_schema.launching import KernelPhase, KernelReport, LaunchOrder
from aliquot_schema.leases import EndEvidence


class Launching:
    """One agent's way of starting kernels. Runs in the event loop; the disk is the worker's."""

    pause_at: str | None = None
    """For tests alone, see `spawner.order.Order.pause_at`; holds for what is sent to the spawner from now on."""

    def __init__(
        self,
        config: AgentConfig,
        *,
        folder: AgentFolder,
        devices: DeviceSet,
        preparation: Preparation,
        worker: Worker,
        book: KernelBook,
        now_us: Callable[[], int],
    ) -> None:
        self._config = config
        self._folder = folder
        self._devices = devices
        self._preparation = preparation
        self._worker = worker
        self._book = book
        self._now_us = now_us
        self._epoch = 0
        self._epoch_lock = asyncio.Lock()

    def join(self, *, spawner: SpawnerProcess, watch: KernelWatch) -> None:
        """Say who starts and who watches; they in turn call `start_again` and `start_pending`."""
        self._spawner = spawner
        self._watch = watch

    def remember_epoch(self, epoch: int) -> None:
        """The highest epoch that the disk knows."""
        self._epoch = epoch

    async def take(self, orders: Sequence[LaunchOrder]) -> None:
        """Take orders in one go, see `AgentCore.launch`. Who ordered may be gone meanwhile: what is half written would
        never be started, nor stopped."""
        await self._worker.see_through(self._take(orders))

    async def see_epoch(self, epoch: int) -> None:
        """Remember a higher epoch durably, before anything is done in its name."""
        async with self._epoch_lock:
            if epoch > self._epoch:
                await self._worker.run(self._folder.write_epoch, epoch)
                self._epoch = epoch

    async def check_epoch(self, subject: str, epoch: int) -> None:
        """Refuse what an older leader asks.

        Raises:
            StateConflict: the epoch is over.
        """
        await self.see_epoch(epoch)
        if epoch < self._epoch:
            text = f"epoch {epoch} is over: {self._epoch} was seen"
            raise StateConflict(text, id=subject, state=f"epoch {self._epoch}")

    def start_again(self, kernel: HeldKernel) -> None:
        """Ask the spawner once more; the claim keeps it one start."""
        if kernel.request is not None:
            self._worker.go_on(self._send([kernel.request | {"pause_at": self.pause_at}]))

    def start_pending(self) -> None:
        """After the spawner died: look at every kernel that it may not have started."""
        for kernel in self._book:
            if kernel.request is not None and kernel.shim is None and kernel.prepared.is_set():
                self._watch.settle(kernel)

    async def _take(self, orders: Sequence[LaunchOrder]) -> None:
        await self.see_epoch(max((order.epoch for order in orders), default=0))
        if any(map(self._preparation.confinement.is_wanted, orders)):
            await self._worker.run(self._preparation.try_sandboxes, orders)
        fresh: list[HeldKernel] = []
        refused: list[tuple[HeldKernel, Refusal]] = []
        for order in orders:
            known = self._book.get(order.kernel_id)
            if known is not None:
                self._repeat(known, order)
                continue
            kernel = self._held(order)
            refusal = self._refusal(kernel, order)
            self._book.add(kernel)
            if refusal is None:
                fresh.append(kernel)
            else:
                refused.append((kernel, refusal))
        for kernel, refusal in refused:
            await self._refuse(kernel, refusal)
        await self._start(fresh)

    def _held(self, order: LaunchOrder) -> HeldKernel:
        return HeldKernel(
            folder=self._folder.kernel(order.kernel_id),
            order=order,
            ordered_boot_id=self._config.node.boot_id,
            group=self._preparation.group_of(order.kernel_id),
        )

    def _refusal(self, kernel: HeldKernel, order: LaunchOrder) -> Refusal | None:
        stale = refuse_stale(
            order,
            attempt=kernel.attempt,
            epoch_seen=self._epoch,
            attempt_seen=self._book.attempt_seen(kernel.session_id),
            now_us=self._now_us(),
        )
        if stale is not None:
            return stale
        slots = frozenset(self._devices.slot_types())
        unknown = refuse_unknown(order, agent_id=self._config.id, devices=self._devices.known(), slots=slots)
        if unknown is not None:
            return unknown
        return self._unfit(kernel, order)

    def _unfit(self, kernel: HeldKernel, order: LaunchOrder) -> Refusal | None:
        try:
            self._preparation.check(kernel, order)
        except AliquotError as error:
            return Refusal(code=error.code, message=error.message)
        return None

    def _repeat(self, kernel: HeldKernel, order: LaunchOrder) -> None:
        """An order that is known says again where it stands; one that was never carried out is carried out."""
        if not kernel.prepared.is_set():
            return
        if kernel.report is not None and kernel.has_ended:
            self._watch.tell(kernel.report)
            return
        stale = refuse_stale(
            order, attempt=kernel.attempt, epoch_seen=self._epoch, attempt_seen=kernel.attempt, now_us=self._now_us()
        )
        if kernel.request is None and kernel.shim is None and kernel.order is not None and stale is None:
            kernel.order = replace(kernel.order, secrets=order.secrets)  # what is on disk is without their values
            self._worker.go_on(self._revive(kernel))
        else:
            self._watch.settle(kernel)

    async def _revive(self, kernel: HeldKernel) -> None:
        """Go on with an order that was on disk when the agent was opened, unless what it needs is gone since."""
        assert kernel.order is not None
        refusal = await self._worker.run(self._unfit, kernel, kernel.order)
        if refusal is not None:
            await self._refuse(kernel, refusal)
            return
        kernel.request = await self._worker.run(self._preparation.request, kernel, pause_at=self.pause_at)
        self._watch.settle(kernel)

    async def _refuse(self, kernel: HeldKernel, refusal: Refusal) -> None:
        kernel.order = None
        await self._watch.close_to_starts(kernel, code=refusal.code, message=refusal.message)
        kernel.prepared.set()

    async def _start(self, kernels: Sequence[HeldKernel]) -> None:
        try:
            await self._worker.run(self._write_all, kernels)
        except OSError as error:
            await self._give_up(kernels, f"agent {self._config.id} cannot write to its disk: {error}")
            return
        except Unavailable as error:
            await self._give_up(kernels, error.message)
            return
        for kernel in kernels:
            kernel.prepared.set()
            self._watch.expect(kernel)
        await self._send([kernel.request for kernel in kernels if kernel.request is not None])

    async def _give_up(self, kernels: Sequence[HeldKernel], message: str) -> None:
        """Refuse what could not be written, and was sent to nobody.

        Where not even a refusal can be written it is told alone: who heard it never sends that order again.
        """
        for kernel in kernels:
            try:
                await self._refuse(kernel, Refusal(code=Unavailable.code, message=message))
            except OSError:
                self._book.remove(kernel.kernel_id)
                kernel.prepared.set()
                self._watch.tell(
                    KernelReport(
                        kernel_id=kernel.kernel_id,
                        phase=KernelPhase.REFUSED,
                        at_us=self._now_us(),
                        evidence=EndEvidence.REFUSED,
                        code=Unavailable.code,
                        message=message,
                    )
                )

    def _write_all(self, kernels: Sequence[HeldKernel]) -> None:
        """Every folder, then once the folder above, so that nothing is started that a power cut could forget."""
        for kernel in kernels:
            self._preparation.write(kernel)
        if kernels:
            flush_folder(self._folder.kernels)
        for kernel in kernels:
            kernel.request = self._preparation.request(kernel, pause_at=self.pause_at)

    async def _send(self, requests: Sequence[dict[str, object]]) -> None:
        """What is not taken now is asked for again, when the spawner was restarted or the start is missed."""
        await self._worker.run(self._spawner.send, requests)
