"""Launching: turns orders into refusals or into kernel folders and spawner requests, and repeats unanswered ones."""

import asyncio
import errno
from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from aliquot.execution.agent.agent_folder import AgentFolder
from aliquot.execution.agent.config import AgentConfig
from aliquot.execution.agent.json_files import flush_folder
from aliquot.execution.agent.kernel_watch import KernelWatch
from aliquot.execution.agent.kernels import KernelHandle, KernelTable
from aliquot.execution.agent.preflight import release
from aliquot.execution.agent.preparation import Preparation, Refusal, refuse_stale, refuse_unknown
from aliquot.execution.agent.spawner_process import SpawnerProcess
from aliquot.execution.devices.device_set import DeviceSet
from aliquot_schema.async_tasks import Worker
from aliquot_schema.cluster.launching import (
    NO_ACCOUNT,
    NO_WORKSPACE,
    WORKSPACE_NO_SPACE,
    KernelPhase,
    KernelReport,
    LaunchOrder,
)
from aliquot_schema.cluster.workspaces import WorkspaceFault
from aliquot_schema.errors import AliquotError, Forbidden, InvalidRequest, NotFound, StateConflict, Unavailable
from aliquot_schema.resources.leases import EndEvidence

_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class Launching:
    """Starts the kernels of one agent. Runs in the event loop; disk I/O runs in the worker's threads."""

    pause_at: str | None = None
    """For tests only, see `spawner.order.Order.pause_at`; applies to requests sent from now on."""

    def __init__(
        self,
        config: AgentConfig,
        *,
        folder: AgentFolder,
        devices: DeviceSet,
        preparation: Preparation,
        worker: Worker,
        kernels: KernelTable,
        now_us: Callable[[], int],
    ) -> None:
        self._config = config
        self._folder = folder
        self._devices = devices
        self._preparation = preparation
        self._worker = worker
        self._kernels = kernels
        self._now_us = now_us
        self._epoch = 0
        self._epoch_lock = asyncio.Lock()

    def join(self, *, spawner: SpawnerProcess, watch: KernelWatch) -> None:
        """Connect the spawner and the watch, which in turn call `retry_pending` and `retry_start`."""
        self._spawner = spawner
        self._watch = watch

    def restore_epoch(self, epoch: int) -> None:
        """Set the highest epoch, as read from disk."""
        self._epoch = epoch

    async def accept(self, orders: Sequence[LaunchOrder]) -> None:
        """Accept orders, see `AgentCore.launch`. Shielded: a cancelled caller must not leave half-written kernels."""
        await self._worker.run_shielded(self._accept(orders))

    async def raise_epoch(self, epoch: int) -> None:
        """Store a higher epoch durably, before any order of that epoch but a stop takes effect.

        Raises:
            Unavailable: the disk cannot be written.
        """
        async with self._epoch_lock:
            if epoch > self._epoch:
                try:
                    await self._worker.run(self._folder.write_epoch, epoch)
                except OSError as error:
                    raise Unavailable(f"the agent cannot write to its disk: {error}") from error
                self._epoch = epoch

    async def check_epoch(self, subject: str, epoch: int, *, is_stop: bool = False) -> None:
        """Refuse a request of an older leader.

        Args:
            is_stop: the epoch need not be stored: a kernel can be stopped although the disk is full.
        Raises:
            StateConflict: the epoch is over.
            Unavailable: the disk cannot be written.
        """
        try:
            await self.raise_epoch(epoch)
        except Unavailable:
            if not is_stop:
                raise
        if epoch < self._epoch:
            text = f"epoch {epoch} is over: {self._epoch} was seen"
            raise StateConflict(text, id=subject, state=f"epoch {self._epoch}")

    def retry_start(self, kernel: KernelHandle) -> None:
        """Repeat the request to the spawner; the claim file prevents a second start."""
        if kernel.request is not None:
            self._worker.spawn(self._send([kernel.request | {"pause_at": self.pause_at}]))

    def retry_pending(self) -> None:
        """After a spawner restart: check every kernel whose start is not confirmed."""
        for kernel in self._kernels:
            if kernel.request is not None and kernel.shim is None and kernel.prepared.is_set():
                self._watch.reconcile(kernel)

    async def _accept(self, orders: Sequence[LaunchOrder]) -> None:
        await self.raise_epoch(max((order.epoch for order in orders), default=0))
        if any(map(self._preparation.confinement.is_wanted, orders)):
            await self._worker.run(self._preparation.try_sandboxes, orders)
        fresh: list[KernelHandle] = []
        refused: list[tuple[KernelHandle, Refusal]] = []
        for order in orders:
            known = self._kernels.get(order.kernel_id)
            if known is not None:
                self._answer_again(known, order)
                continue
            kernel = self._handle(order)
            refusal = self._refusal(kernel, order)
            self._kernels.add(kernel)
            if refusal is None:
                fresh.append(kernel)
            else:
                refused.append((kernel, refusal))
        for kernel, refusal in refused:
            await self._refuse(kernel, refusal)
        await self._start(fresh)

    def _handle(self, order: LaunchOrder) -> KernelHandle:
        return KernelHandle(
            folder=self._folder.kernel(order.kernel_id),
            order=order,
            ordered_boot_id=self._config.node.boot_id,
            group=self._preparation.group_of(order.kernel_id),
        )

    def _refusal(self, kernel: KernelHandle, order: LaunchOrder) -> Refusal | None:
        stale = refuse_stale(
            order,
            attempt=kernel.attempt,
            epoch_seen=self._epoch,
            attempt_seen=self._kernels.attempt_seen(kernel.session_id),
            now_us=self._now_us(),
        )
        return stale if stale is not None else self._refuse_unfit(kernel, order)

    def _refuse_unfit(self, kernel: KernelHandle, order: LaunchOrder) -> Refusal | None:
        slots = frozenset(self._devices.slot_types())
        unknown = refuse_unknown(order, agent_id=self._config.id, devices=self._devices.known(), slots=slots)
        if unknown is not None:
            return unknown
        try:
            self._preparation.user_for(order.user)
        except (InvalidRequest, Forbidden) as error:
            return Refusal(code=NO_ACCOUNT, message=f"{error.message}, where agent {self._config.id} runs")
        if order.workspace is not None and not self._preparation.workspaces.has(order.workspace.id):
            return self._refuse_without(order.workspace.id, order.workspace_fault)
        try:
            self._preparation.check(kernel, order)
        except AliquotError as error:
            return Refusal(code=error.code, message=error.message)
        return None

    def _refuse_without(self, workspace: str, fault: WorkspaceFault | None) -> Refusal:
        """Why a workspace is not here; what this agent cannot store, another one may."""
        failure = self._preparation.workspaces.failures.get(workspace)
        if failure is not None:
            return _without_space(failure)
        why = f"workspace {workspace} has expired on the server; submit it again with --sync"
        text = f"the working directory was not brought: {why if fault is None else fault.message}"
        is_everywhere = fault is None or fault.is_everywhere
        return Refusal(code=NO_WORKSPACE if is_everywhere else WORKSPACE_NO_SPACE, message=text)

    def _answer_again(self, kernel: KernelHandle, order: LaunchOrder) -> None:
        """Repeat the report of a known order; resume one that was stored but never started."""
        if not kernel.prepared.is_set():
            return
        if kernel.has_ended:
            self._watch.reconcile(kernel)
            return
        stale = refuse_stale(
            order, attempt=kernel.attempt, epoch_seen=self._epoch, attempt_seen=kernel.attempt, now_us=self._now_us()
        )
        if order.preflight is not None and order.preflight.is_released:
            self._worker.spawn(self._worker.run(release, kernel, boot_id=self._config.node.boot_id))
        if kernel.request is None and kernel.shim is None and kernel.order is not None and stale is None:
            kernel.order = replace(kernel.order, secrets=order.secrets)  # the stored order has no secret values
            self._worker.spawn(self._resume(kernel))
        else:
            self._watch.reconcile(kernel)

    async def _resume(self, kernel: KernelHandle) -> None:
        """Start a kernel whose order was on disk when the agent was opened, unless it has become invalid."""
        assert kernel.order is not None
        refusal = await self._worker.run(self._refuse_unfit, kernel, kernel.order)
        if refusal is not None:
            await self._refuse(kernel, refusal)
            return
        kernel.request = await self._worker.run(self._preparation.request, kernel, pause_at=self.pause_at)
        self._watch.reconcile(kernel)

    async def _refuse(self, kernel: KernelHandle, refusal: Refusal) -> None:
        """Refuse an order. If that cannot be written, it is only reported: no server repeats such an order."""
        kernel.order = None
        try:
            await self._watch.close_to_starts(kernel, code=refusal.code, message=refusal.message)
        except OSError:
            self._kernels.remove(kernel.kernel_id)
            self._watch.report(
                KernelReport(
                    kernel_id=kernel.kernel_id,
                    phase=KernelPhase.REFUSED,
                    at_us=self._now_us(),
                    evidence=EndEvidence.REFUSED,
                    code=refusal.code,
                    message=refusal.message,
                )
            )
        kernel.prepared.set()

    async def _start(self, kernels: Sequence[KernelHandle]) -> None:
        try:
            await self._worker.run(self._write_all, kernels)
        except OSError as error:
            for kernel in kernels:  # nothing was sent to the spawner
                await self._refuse(kernel, self._not_written(kernel, error))
            return
        except (Unavailable, NotFound) as error:
            for kernel in kernels:
                await self._refuse(kernel, Refusal(code=Unavailable.code, message=error.message))
            return
        for kernel in kernels:
            kernel.prepared.set()
            self._watch.check_later(kernel)
        await self._send([kernel.request for kernel in kernels if kernel.request is not None])

    def _not_written(self, kernel: KernelHandle, error: OSError) -> Refusal:
        """Why a kernel's folder could not be written. For its workspace another agent may have space."""
        if kernel.order is not None and kernel.order.workspace is not None and error.errno in _NO_SPACE:
            return _without_space(error.strerror or str(error))
        text = f"agent {self._config.id} cannot write to its disk: {error}"
        return Refusal(code=Unavailable.code, message=text)

    def _write_all(self, kernels: Sequence[KernelHandle]) -> None:
        """Write every kernel folder, then flush their parent once: a power cut must not undo a started kernel."""
        for kernel in kernels:
            self._preparation.write(kernel)
        if kernels:
            flush_folder(self._folder.kernels)
        for kernel in kernels:
            kernel.request = self._preparation.request(kernel, pause_at=self.pause_at)

    async def _send(self, requests: Sequence[dict[str, object]]) -> None:
        """Requests not accepted now are repeated after a spawner restart or after `start_patience_s`."""
        await self._worker.run(self._spawner.send, requests)


def _without_space(why: str) -> Refusal:
    return Refusal(code=WORKSPACE_NO_SPACE, message=f"the working directory cannot be stored: {why}")
