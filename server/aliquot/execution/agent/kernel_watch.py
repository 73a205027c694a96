"""Kernel watch: follows every kernel from order to end and reports its state.

If a shim is killed, its kernel's leftover processes are found by cgroup and by a marker in the environment, and killed.
"""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from aliquot.execution.agent.cgroups import kill_group, members, remove_group
from aliquot.execution.agent.checkpoints import Checkpoints
from aliquot.execution.agent.config import AgentConfig
from aliquot.execution.agent.host_use import at_exit
from aliquot.execution.agent.isolation.pulls import failed_pull_report, has_failed_pull, progress_of
from aliquot.execution.agent.json_files import read_file, replace_file
from aliquot.execution.agent.kernel_state import (
    KernelObservation,
    KernelStatus,
    closed_report,
    exit_report,
    lost_shim_exit,
    observe,
    rebooted_exit,
)
from aliquot.execution.agent.kernels import KernelHandle
from aliquot.execution.agent.preflight import check_report, failed_report, has_failed
from aliquot.execution.agent.preparation import MARK, REBOOTED, TOO_LATE
from aliquot.execution.agent.shim_client import open_process
from aliquot.execution.agent.spawner.drafts import remove_drafts
from aliquot.execution.agent.spawner_process import ShimOutcome
from aliquot_schema.async_tasks import Worker
from aliquot_schema.cluster.launching import KernelPhase, KernelReport

_RECHECK_S: Final = 0.05
"""Interval between two scans: during execve(2) a process briefly has no readable environment."""


def kill_leftovers(kernel_id: str, *, group: str | None, patience_s: float) -> bool:
    """Kill a kernel's leftover processes; False if some still exist after `patience_s`. Blocks."""
    deadline = time.monotonic() + patience_s
    clean = 0
    while clean < 2:
        if group is not None:
            kill_group(group)
        left = [pid for pid in find_leftovers(kernel_id, group=group) if not _kill(pid, kernel_id)]
        clean = 0 if left else clean + 1
        if time.monotonic() > deadline and left:
            return False
        time.sleep(_RECHECK_S)
    if group is not None:
        remove_group(group)
    return True


def find_leftovers(kernel_id: str, *, group: str | None) -> set[int]:
    """Pids of a kernel's living processes. Only root can read the environment of other users' processes."""
    marked = {int(name) for name in os.listdir("/proc") if name.isdecimal() and _is_marked(int(name), kernel_id)}
    return marked | set(members(group) if group is not None else ())


def _kill(pid: int, kernel_id: str) -> bool:
    """Kill a process if it still belongs to the kernel; True if it was gone already."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if _is_marked(pid, kernel_id):
            signal.pidfd_send_signal(process, signal.SIGKILL)
            return False
    except ProcessLookupError:
        return True
    finally:
        os.close(process)
    return False


def _is_marked(pid: int, kernel_id: str) -> bool:
    """Whether the process belongs to the kernel. A zombie has no readable environment and counts as gone."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as environment:
            return f"{MARK}={kernel_id}".encode() in environment.read().split(b"\0")
    except OSError:
        return False


NOT_CLAIMED: Final = "not_claimed"
"""Report code of an order that was stored before the agent ended and never started: launch it again, or stop it."""
SHIM_LOST: Final = "shim_lost"
UNREADABLE: Final = "unreadable"

SAVED_AGAIN_S: Final = 10.0
"""Seconds between two reports on acknowledged checkpoints of a kernel."""
_RETRY_S: Final = 5.0

_log = logging.getLogger(__name__)


class KernelWatch:
    """Watches shims by pidfd and reads a kernel's files when its state may have changed. Runs in the event loop."""

    def __init__(
        self,
        config: AgentConfig,
        *,
        worker: Worker,
        now_us: Callable[[], int],
        report: Callable[[KernelReport], None],
        retry_start: Callable[[KernelHandle], None],
        clean: Callable[..., None],
        on_container_end: Callable[[], None],
        checkpoints: Checkpoints,
    ) -> None:
        """
        Args:
            clean: removes what an ended kernel left outside its folder, see `Preparation.clean`.
        """
        self._config = config
        self._worker = worker
        self._now_us = now_us
        self.report = report
        self._start_again = retry_start
        self._clean = clean
        self._on_container_end = on_container_end
        self._checkpoints = checkpoints

    def check_later(self, kernel: KernelHandle) -> None:
        """Read the kernel's state if its start is not reported within `start_patience_s`."""
        self._check_in(kernel, self._config.start_patience_s)

    def on_outcome(self, kernel: KernelHandle, outcome: ShimOutcome) -> None:
        """Handle a shim's report on its start."""
        if outcome.outcome == "late":
            self._worker.spawn(self.close_to_starts(kernel, code=TOO_LATE, message="it could not be started in time"))
            return
        if outcome.outcome in ("pulling", "checked"):
            self._watch(kernel, outcome.pid, outcome.start_time)
            self.reconcile(kernel)
            return
        if outcome.outcome == "started":
            kernel.takes_limit = True  # its shim is of this release
            _read_pull(kernel)
            self._report(kernel, KernelPhase.STARTED)
        if outcome.outcome == "withdrew" or not self._watch(kernel, outcome.pid, outcome.start_time):
            self.reconcile(kernel)

    def reconcile(self, kernel: KernelHandle) -> None:
        """Read the kernel's state on disk, report it, and act on it. The end of a kernel is read once."""
        self._cancel_timer(kernel)
        if kernel.report is not None and kernel.has_ended:
            self.report(kernel.report)
            return
        try:
            observation = observe(
                kernel.folder, boot_id=self._config.node.boot_id, ordered_boot_id=kernel.ordered_boot_id
            )
            self._act(kernel, observation)
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.warning("kernel %s cannot be read: %s", kernel.kernel_id, error)
            self._report(kernel, KernelPhase.UNCERTAIN, code=UNREADABLE, message=str(error))
            if isinstance(error, OSError):  # the disk may be full for a while
                self._check_in(kernel, _RETRY_S)

    def annotate(self, kernel: KernelHandle, *, code: str | None, message: str | None) -> None:
        """Attach a code and message to a running kernel; None removes them."""
        if kernel.report is not None and kernel.report.phase is KernelPhase.STARTED:
            self._report(kernel, KernelPhase.STARTED, code=code, message=message)

    async def look_for_checkpoints(self, kernels: Sequence[KernelHandle]) -> None:
        """Report and copy the checkpoints that running kernels have acknowledged."""
        await self._worker.run(self._look, kernels)
        for kernel in kernels:
            if kernel.saved_ms is not None:
                self._report_saved(kernel)
                if not kernel.is_shared and not kernel.is_copied:
                    kernel.is_copied = True
                    self._worker.spawn(self._share(kernel))

    def _look(self, kernels: Sequence[KernelHandle]) -> None:
        for kernel in kernels:
            try:
                self._checkpoints.look(kernel)
            except OSError as error:
                _log.warning("the checkpoint of kernel %s cannot be noted yet: %s", kernel.kernel_id, error)

    async def _share(self, kernel: KernelHandle) -> None:
        """Copy an acknowledged checkpoint in the background: a large one takes minutes."""
        try:
            await self._worker.run(self._checkpoints.share, kernel)
        finally:
            kernel.is_copied = False

    def _report_saved(self, kernel: KernelHandle) -> None:
        """At most every `SAVED_AGAIN_S`, unless it was just asked to save its work."""
        known, now = kernel.report, time.monotonic()
        if kernel.saved_ms == kernel.told_ms or known is None or known.phase is not KernelPhase.STARTED:
            return
        if now - kernel.told_at >= SAVED_AGAIN_S:
            self._report(kernel, KernelPhase.STARTED, code=known.code, message=known.message)
            kernel.told_ms, kernel.told_at = kernel.saved_ms, now

    async def close_to_starts(self, kernel: KernelHandle, *, code: str, message: str) -> None:
        """Refuse a kernel for good, unless a shim claimed it first."""
        claim: dict[str, object] = {"by": "agent", "code": code, "message": message}
        drafts = self._config.folder / "drafts"
        await self._worker.run(kernel.folder.close_to_starts, claim, drafts=drafts)
        self.reconcile(kernel)

    def forget(self, kernel: KernelHandle) -> None:
        """Stop watching a kernel."""
        self._cancel_timer(kernel)
        if kernel.shim is not None:
            asyncio.get_running_loop().remove_reader(kernel.shim)
            os.close(kernel.shim)
            kernel.shim = None

    def _act(self, kernel: KernelHandle, observation: KernelObservation) -> None:
        match observation.status:
            case KernelStatus.ORDERED if kernel.request is not None:
                self._start_again(kernel)
                self.check_later(kernel)
            case KernelStatus.ORDERED:
                text = "ordered before the agent ended and not started: launch it again, or stop it"
                self._report(kernel, KernelPhase.UNCERTAIN, code=NOT_CLAIMED, message=text)
            case KernelStatus.STARTING:
                self.check_later(kernel)
            case KernelStatus.ALIVE:
                self._follow(kernel, observation)
            case KernelStatus.CLOSED:
                assert observation.claim is not None
                self._end(kernel, closed_report(kernel.folder, observation.claim, at_us=self._now_us()))
            case KernelStatus.EXITED:
                assert observation.exit is not None
                self._exited(kernel, observation.exit)
            case KernelStatus.DEAD:
                self._worker.spawn(self._end_leftovers(kernel))
            case KernelStatus.REBOOTED:
                self._worker.spawn(self._end_rebooted(kernel, claimed=observation.claim is not None))

    def _exited(self, kernel: KernelHandle, found: dict[str, Any]) -> None:
        if has_failed(found):
            self._end(kernel, failed_report(kernel.folder, found))
            return
        if has_failed_pull(found):
            image = "" if kernel.order is None else str(kernel.order.image)
            self._end(kernel, failed_pull_report(kernel.kernel_id, image, found))
            return
        self._checkpoints.look(kernel, ended=found)
        _read_pull(kernel)
        report = replace(_with_work(exit_report(kernel.folder, found), kernel), host_use=at_exit(kernel, found))
        was_killed = found.get("exit_code") is None or found.get("stop_asked") or found.get("timed_out")
        in_container = kernel.order is not None and kernel.order.image is not None
        if in_container:
            self._on_container_end()
        if kernel.is_shared and not (in_container and was_killed):
            self._end(kernel, report)
        elif not kernel.ending:
            kernel.ending = True
            self._worker.spawn(self._end_later(kernel, report))

    def _follow(self, kernel: KernelHandle, observation: KernelObservation) -> None:
        assert observation.claim is not None
        _read_pull(kernel)
        if kernel.shim is None and not self._watch(kernel, observation.claim["pid"], observation.claim["start_time"]):
            # The shim is gone; a process that it forked holds the lock until it ends or executes a program.
            self._check_in(kernel, _RECHECK_S)
        elif observation.has_pid:
            kernel.takes_limit = observation.takes_limit
            self._report(kernel, KernelPhase.STARTED)
        else:
            has_check = kernel.order is not None and kernel.order.preflight is not None
            if kernel.pull is not None and not (kernel.pull.is_done and has_check):
                self._report(kernel, KernelPhase.PULLING)
            elif has_check:
                kernel.report = _with_work(check_report(observation, kernel.kernel_id, at_us=self._now_us()), kernel)
                self.report(kernel.report)
            self.check_later(kernel)

    def _watch(self, kernel: KernelHandle, pid: int, began: int) -> bool:
        """Register for the end of the shim; False if it has ended already."""
        self._cancel_timer(kernel)
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

    def _shim_ended(self, kernel: KernelHandle) -> None:
        self.forget(kernel)
        self.reconcile(kernel)

    async def _end_leftovers(self, kernel: KernelHandle) -> None:
        """Kill what a killed shim left behind, and write the exit file in its stead."""
        if kernel.ending:
            return
        kernel.ending, gone = True, False
        try:
            patience_s = self._config.end_patience_s
            gone = await self._worker.run(kill_leftovers, kernel.kernel_id, group=kernel.group, patience_s=patience_s)
            if gone:
                await self._worker.run(_remove_drafts, kernel)
                await self._worker.run(self._clean, kernel, was_killed=False)
                found = lost_shim_exit(kernel.folder, self._now_us())
                await self._worker.run(replace_file, kernel.folder.exit, found)
            else:
                text = "the shim was killed, and processes of the kernel still exist"
                self._report(kernel, KernelPhase.UNCERTAIN, code=SHIM_LOST, message=text)
        except OSError as error:
            gone = False
            _log.warning("the end of kernel %s cannot be recorded: %s", kernel.kernel_id, error)
        finally:
            kernel.ending = False
        if gone:
            self.reconcile(kernel)
        else:
            self._check_in(kernel, _RETRY_S)

    async def _end_later(self, kernel: KernelHandle, report: KernelReport) -> None:
        """Report the end after the last checkpoint was copied, because the next attempt may run on another agent, and
        after a killed job's container was removed, which Docker's daemon may still run."""
        await self._worker.run(self._clean, kernel, was_killed=True)
        if not kernel.is_shared:
            await self._worker.run(self._checkpoints.share, kernel)
        kernel.ending = False
        self._end(kernel, report)

    async def _end_rebooted(self, kernel: KernelHandle, *, claimed: bool) -> None:
        text = "the host was rebooted"
        try:
            if not claimed:
                await self.close_to_starts(kernel, code=REBOOTED, message=text)
                return
            found = rebooted_exit(kernel.folder, self._now_us(), text)
            await self._worker.run(replace_file, kernel.folder.exit, found)
        except OSError as error:
            _log.warning("the end of kernel %s cannot be recorded: %s", kernel.kernel_id, error)
            self._check_in(kernel, _RETRY_S)
        else:
            self.reconcile(kernel)

    def _end(self, kernel: KernelHandle, report: KernelReport) -> None:
        self.forget(kernel)
        if kernel.order is not None and kernel.order.secrets:
            self._worker.spawn(self._worker.run(self._clean, kernel, was_killed=False))
        kernel.order = None
        kernel.request = None
        kernel.report = report
        self.report(report)

    def _report(
        self, kernel: KernelHandle, phase: KernelPhase, *, code: str | None = None, message: str | None = None
    ) -> None:
        at_us = self._now_us()
        report = KernelReport(kernel_id=kernel.kernel_id, phase=phase, at_us=at_us, code=code, message=message)
        kernel.report = _with_work(report, kernel)
        self.report(kernel.report)

    def _check_in(self, kernel: KernelHandle, delay_s: float) -> None:
        self._cancel_timer(kernel)
        kernel.timer = asyncio.get_running_loop().call_later(delay_s, self.reconcile, kernel)

    @staticmethod
    def _cancel_timer(kernel: KernelHandle) -> None:
        if kernel.timer is not None:
            kernel.timer.cancel()
            kernel.timer = None


def _remove_drafts(kernel: KernelHandle) -> None:
    """Remove what the pull of a killed shim has fetched."""
    try:
        found = read_file(kernel.folder.pull) or {}
    except ValueError:
        return
    for path in filter(None, found.get("drafts", "").split(":")):
        remove_drafts(path, found["account"])


def _read_pull(kernel: KernelHandle) -> None:
    """Read how far the pull of its image is. A short job may have ended since the last look."""
    if kernel.order is not None and kernel.order.image is not None:
        kernel.pull = progress_of(read_file(kernel.folder.pull))


def _with_work(report: KernelReport, kernel: KernelHandle) -> KernelReport:
    return replace(
        report,
        saved_ms=kernel.saved_ms,
        resumed_ms=kernel.resumed_ms,
        resume_note=kernel.resume_note,
        takes_limit=kernel.takes_limit and report.phase is KernelPhase.STARTED,
        pull=kernel.pull,
    )
