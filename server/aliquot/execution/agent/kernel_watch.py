"""Follows every kernel from its order to its end, and says what it finds."""

import asyncio
import logging
import os
import time
from collections.abc import Callable
from typing import Any, Final

from aliquot.execution.agent.admission import REBOOTED, TOO_LATE
from aliquot.execution.agent.config import AgentConfig
from aliquot.execution.agent.endings import lost_shim_exit, rebooted_exit
from aliquot.execution.agent.held_kernel import HeldKernel
from aliquot.execution.agent.json_files import replace_file
from aliquot.execution.agent.kernel_folder import KernelFolder
from aliquot.execution.agent.remains import end_remains
from aliquot.execution.agent.shim_process import open_process
from aliquot.execution.agent.spawner_process import ShimOutcome
from aliquot.execution.agent.standing import Sight, Standing, closed_report, exit_report, look
from aliquot.execution.agent.worker import Worker
from aliquot_schema.launching import KernelPhase, KernelReport

NOT_CLAIMED: Final = "not_claimed"
"""The code of an order that was written before the agent ended, and never started: launch it again, or stop it."""
SHIM_LOST: Final = "shim_lost"
UNREADABLE: Final = "unreadable"

_LOOK_AGAIN_S: Final = 0.05
_TRY_AGAIN_S: Final = 5.0

_log = logging.getLogger(__name__)


class KernelWatch:
    """Watches shims by pidfd; asks the disk when something may have happened. Runs in the event loop."""

    def __init__(
        self,
        config: AgentConfig,
        *,
        worker: Worker,
        now_us: Callable[[], int],
        tell: Callable[[KernelReport], None],
        start_again: Callable[[HeldKernel], None],
        clean: Callable[[KernelFolder], None],
    ) -> None:
        """
        Args:
            clean: removes what a kernel that has ended left outside of its folder.
        """
        self._config = config
        self._worker = worker
        self._now_us = now_us
        self.tell = tell
        self._start_again = start_again
        self._clean = clean

    def expect(self, kernel: HeldKernel) -> None:
        """Look at the kernel when nothing was heard of its start for a while."""
        self._look_in(kernel, self._config.start_patience_s)

    def heard(self, kernel: HeldKernel, outcome: ShimOutcome) -> None:
        """Take in what a shim said of its start."""
        if outcome.outcome == "late":
            self._worker.go_on(self.close_to_starts(kernel, code=TOO_LATE, message="it could not be started in time"))
            return
        if outcome.outcome == "started":
            self._say(kernel, KernelPhase.STARTED)
        if outcome.outcome == "withdrew" or not self._watch(kernel, outcome.pid, outcome.start_time):
            self.settle(kernel)

    def settle(self, kernel: HeldKernel) -> None:
        """Look at the kernel on disk, say what is found, and do what follows from it."""
        self._calm(kernel)
        try:
            sight = look(kernel.folder, boot_id=self._config.node.boot_id, ordered_boot_id=kernel.ordered_boot_id)
            self._act(kernel, sight)
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.warning("kernel %s cannot be read: %s", kernel.kernel_id, error)
            self._say(kernel, KernelPhase.UNCERTAIN, code=UNREADABLE, message=str(error))

    def remark(self, kernel: HeldKernel, *, code: str | None, words: str | None) -> None:
        """Say something of a kernel that runs; None takes back what was said."""
        if kernel.report is not None and kernel.report.phase is KernelPhase.STARTED:
            self._say(kernel, KernelPhase.STARTED, code=code, message=words)

    async def close_to_starts(self, kernel: HeldKernel, *, code: str, message: str) -> None:
        """Refuse a kernel for good, unless a start was faster."""
        claim: dict[str, object] = {"by": "agent", "code": code, "message": message}
        drafts = self._config.folder / "drafts"
        await self._worker.run(kernel.folder.close_to_starts, claim, drafts=drafts)
        self.settle(kernel)

    def forget(self, kernel: HeldKernel) -> None:
        """Watch it no more."""
        self._calm(kernel)
        if kernel.shim is not None:
            asyncio.get_running_loop().remove_reader(kernel.shim)
            os.close(kernel.shim)
            kernel.shim = None

    def _act(self, kernel: HeldKernel, sight: Sight) -> None:
        match sight.standing:
            case Standing.ORDERED if kernel.request is not None:
                self._start_again(kernel)
                self.expect(kernel)
            case Standing.ORDERED:
                text = "ordered before the agent ended, and not started: launch it again, or stop it"
                self._say(kernel, KernelPhase.UNCERTAIN, code=NOT_CLAIMED, message=text)
            case Standing.STARTING:
                self.expect(kernel)
            case Standing.ALIVE:
                self._accompany(kernel, sight)
            case Standing.CLOSED:
                assert sight.claim is not None
                self._end(kernel, closed_report(kernel.folder, sight.claim, at_us=self._now_us()))
            case Standing.EXITED:
                assert sight.exit is not None
                self._end(kernel, exit_report(kernel.folder, sight.exit))
            case Standing.DEAD:
                self._worker.go_on(self._end_remains(kernel))
            case Standing.REBOOTED:
                self._worker.go_on(self._end_rebooted(kernel, claimed=sight.claim is not None))

    def _accompany(self, kernel: HeldKernel, sight: Sight) -> None:
        assert sight.claim is not None
        if kernel.shim is None and not self._watch(kernel, sight.claim["pid"], sight.claim["start_time"]):
            # The shim is gone, and a process that it forked has the lock until it ends or executes a program.
            self._look_in(kernel, _LOOK_AGAIN_S)
        elif sight.has_pid:
            self._say(kernel, KernelPhase.STARTED)
        else:
            self.expect(kernel)

    def _watch(self, kernel: HeldKernel, pid: int, began: int) -> bool:
        """Be called when the shim ends; False when it has ended."""
        self._calm(kernel)
        if kernel.shim is not None:
            return True
        shim = open_process(pid, began)
        if shim is None:
            return False
        kernel.shim = shim
        kernel.shim_pid = pid
        kernel.seen_at = time.monotonic()
        asyncio.get_running_loop().add_reader(shim, self._shim_ended, kernel)
        return True

    def _shim_ended(self, kernel: HeldKernel) -> None:
        self.forget(kernel)
        self.settle(kernel)

    async def _end_remains(self, kernel: HeldKernel) -> None:
        """End what a killed shim left behind, and write the exit file in its place."""
        if kernel.ending:
            return
        kernel.ending = True
        try:
            patience_s = self._config.end_patience_s
            gone = await self._worker.run(end_remains, kernel.kernel_id, group=kernel.group, patience_s=patience_s)
            if gone:
                await self._worker.run(self._clean, kernel.folder)
                await self._worker.run(self._write_exit, kernel, lost_shim_exit(kernel.folder, self._now_us()))
                self.settle(kernel)
                return
            text = "the shim was killed, and processes of the kernel are still there"
            self._say(kernel, KernelPhase.UNCERTAIN, code=SHIM_LOST, message=text)
        except OSError as error:
            _log.warning("kernel %s cannot be ended: %s", kernel.kernel_id, error)
        finally:
            kernel.ending = False
        self._look_in(kernel, _TRY_AGAIN_S)

    async def _end_rebooted(self, kernel: HeldKernel, *, claimed: bool) -> None:
        text = "the host was booted again since"
        if not claimed:
            await self.close_to_starts(kernel, code=REBOOTED, message=text)
            return
        await self._worker.run(self._write_exit, kernel, rebooted_exit(kernel.folder, self._now_us(), text))
        self.settle(kernel)

    @staticmethod
    def _write_exit(kernel: HeldKernel, fields: dict[str, Any]) -> None:
        replace_file(kernel.folder.exit, fields)

    def _end(self, kernel: HeldKernel, report: KernelReport) -> None:
        self.forget(kernel)
        if kernel.order is not None and kernel.order.secrets:
            self._worker.go_on(self._worker.run(self._clean, kernel.folder))
        kernel.order = None
        kernel.request = None
        kernel.report = report
        self.tell(report)

    def _say(
        self, kernel: HeldKernel, phase: KernelPhase, *, code: str | None = None, message: str | None = None
    ) -> None:
        at_us = self._now_us()
        kernel.report = KernelReport(kernel_id=kernel.kernel_id, phase=phase, at_us=at_us, code=code, message=message)
        self.tell(kernel.report)

    def _look_in(self, kernel: HeldKernel, delay_s: float) -> None:
        self._calm(kernel)
        kernel.alarm = asyncio.get_running_loop().call_later(delay_s, self.settle, kernel)

    @staticmethod
    def _calm(kernel: HeldKernel) -> None:
        if kernel.alarm is not None:
            kernel.alarm.cancel()
            kernel.alarm = None
