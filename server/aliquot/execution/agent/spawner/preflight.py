"""Preflight: runs a check in the place of the job before it, and waits until the other ranks have passed theirs.

The check is a process like the job's: same account, cgroups, limits, sandbox and output. Nothing of it is left when the
job starts. `preflight.json` says that it passed, `go.json` of the agent that the job may start.
"""

import _signal as signal  # type: ignore[import-not-found] # without the enumerations: they cost a shim 0.7 MiB
import os
import time

from child import fork_child, was_entered  # type: ignore[import-not-found] # siblings: the folder is run as a program
from descendants import kill_tree  # type: ignore[import-not-found]
from order import Order  # type: ignore[import-not-found]
from records import write_record  # type: ignore[import-not-found]

_LOOK_MS = 1_000
"""Interval between two kills of what a check left behind."""
STOPPED = "stopped"
"""Result of a check, or of the wait after it, that a stop ended."""


class Check:
    """The check of one kernel. Times are milliseconds of CLOCK_BOOTTIME.

    Args:
        folder: an open descriptor of the kernel's folder.
        woken_by: the signals that a shim waits for, all blocked.
    """

    def __init__(self, order: Order, folder: int, woken_by: tuple[int, ...]) -> None:
        self._order = order
        self._folder = folder
        self._woken_by = woken_by
        self._status: int | None = None
        self._pid = 0
        self._is_stopped = False
        self._is_late = False

    def run(self) -> str | None:
        """Run it until none of its processes is left; None = passed, else `STOPPED` or what failed."""
        assert self._order.preflight is not None
        argv, limit_ms, _ = self._order.preflight
        began = _now()
        child = fork_child(Order({**self._order.__dict__, "argv": argv}), self._folder)
        self._pid = child.pid
        child.open_gate()
        self._supervise(began + limit_ms)
        complaint = os.read(child.complaint, 4096).decode(errors="replace")
        os.close(child.complaint)
        is_entered = child.status is None or was_entered(child.status)
        failure = self._failure(complaint.partition(" ")[2], is_entered=is_entered, limit_ms=limit_ms)
        if failure is None:
            fields = {"kernel_id": self._order.kernel_id, "ran_ms": _now() - began, "at_us": time.time_ns() // 1000}
            write_record(self._folder, "preflight.json", fields)
        return failure

    def wait(self) -> str | None:
        """Wait until the job may start; None, or `STOPPED`. A kernel that is released from the first does not wait."""
        assert self._order.preflight is not None
        while self._order.preflight[2]:
            try:
                os.close(os.open("go.json", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self._folder))
                return None
            except FileNotFoundError:
                pass
            if signal.sigwaitinfo(self._woken_by).si_signo == signal.SIGTERM:
                return STOPPED
        return None

    def _supervise(self, due: int) -> None:
        while self._reap():
            if self._status is not None or self._is_stopped or self._is_late:
                kill_tree(os.getpid(), self._order.group)
                due = _now() + _LOOK_MS
                if not self._reap():
                    return
            found = signal.sigtimedwait(self._woken_by, max(0, due - _now()) / 1000)
            if found is not None and found.si_signo == signal.SIGTERM:
                self._is_stopped = True
            if self._status is None and _now() >= due:
                self._is_late = True

    def _reap(self) -> bool:
        """Reap ended processes; False when none is left."""
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
                if ended[0] == self._pid:
                    self._status = ended[1]
        except ChildProcessError:
            return False
        return True

    def _failure(self, complaint: str, *, is_entered: bool, limit_ms: int) -> str | None:
        if self._is_stopped:
            return STOPPED
        if complaint:
            return complaint
        if self._is_late:
            return f"it ran longer than {limit_ms / 1000:g} s"
        assert self._status is not None
        if os.WIFSIGNALED(self._status):
            return f"it was ended by signal {os.WTERMSIG(self._status)}"
        if not is_entered:
            return "the sandbox could not be created"
        code = os.WEXITSTATUS(self._status)
        return f"it exited with code {code}" if code else None


def _now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
