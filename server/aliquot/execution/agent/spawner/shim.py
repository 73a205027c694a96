"""Shim: the process that owns a kernel's process tree, from its claim until the whole tree is gone.

It outlives the agent and the spawner. Its lock shows that it lives. Its files are `claim` (this start won), `pid.json`
(the job's process; written before it may start) and `exit.json` (all processes have ended). It wakes up for a signal or
at a deadline and never polls. SIGTERM stops the kernel with the grace period of `request.json` or else of the order; a
real-time signal is forwarded to the job's main process, see `FORWARD_FROM`. SIGUSR1 starts the program `terminals`,
which opens shells beside the job. SIGUSR2 says that `limit.json` has another time limit.
"""

import _signal as signal  # type: ignore[import-not-found] # without the enumerations: they cost a shim 0.7 MiB
import marshal
import os
import select
import sys
import time

from child import (  # type: ignore[import-not-found] # siblings: the folder is run as a program
    NOT_RUNNABLE,
    Child,
    become_subreaper,
    fork_child,
    job_of,
    makers_of,
    own_groups,
    remove_secrets,
    was_entered,
    write_secrets,
)
from descendants import (  # type: ignore[import-not-found]
    catches,
    container_job,
    kill_tree,
    runtime_processes,
    signal_tree,
    start_time,
)
from device_gate import close_devices  # type: ignore[import-not-found]
from file_pages import drop_pages  # type: ignore[import-not-found]
from order import Order  # type: ignore[import-not-found]
from preflight import STOPPED, Check  # type: ignore[import-not-found]
from pull import Pull  # type: ignore[import-not-found]
from records import claim_record, take_lock, write_record  # type: ignore[import-not-found]

# ruff: noqa: SIM105 -- importing contextlib would cost each shim memory


FORWARD_FROM = 33
"""Signal 33 + n is forwarded as signal n, 1..31: real-time signals 34..64 are queued and delivered in order."""
LEFTOVER_GRACE_MS = 1_000
"""Grace period of processes that the main process left behind when it ended by itself."""
KILL_AGAIN_MS = 1_000
EXIT_AGAIN_S = 1
EXEC_LOOK_MS = 200
"""Interval of signal checks during execve(2) of the job, which takes long only on an unresponsive file system."""

_TERMINALS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "terminals.py")
_BLOCKED = tuple(signal.valid_signals())
_WOKEN_BY = (
    signal.SIGCHLD,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    *range(FORWARD_FROM + 1, FORWARD_FROM + 32),
)


def run(order: Order, report: int, mappings: list[tuple[int, int]]) -> None:
    """Start the kernel unless it is claimed already, and supervise it until its end.

    Args:
        report: a pipe to the agent; one line `<outcome> <kernel> <shim's pid> <its start time>` is written to it, with
            the outcome `pulling` (its image is fetched), `checked` (the preflight passed), `started`, `failed`
            (exit.json follows), `late` or `withdrew` (nothing was claimed).
        mappings: file mappings whose pages can be dropped while the kernel runs.
    """
    # From here on only `_take_signal` receives signals, also those of the spawner's SIGCHLD handler.
    signal.pthread_sigmask(signal.SIG_SETMASK, _BLOCKED)
    os.setsid()
    become_subreaper()
    order.reached("forked")
    outcome = _claim(order)
    if outcome is not None:
        _tell(order, report, outcome)
        return
    folder = os.open(order.folder, os.O_RDONLY | os.O_DIRECTORY)
    _Supervision(order, folder, report).live(mappings)


def _claim(order: Order) -> str | None:
    """Take the lock and the claim; None on success, else the outcome. The lock is released when the process ends."""
    folder = os.open(order.folder, os.O_RDONLY | os.O_DIRECTORY)
    lock = os.open("lock", os.O_RDWR | os.O_NOFOLLOW, dir_fd=folder)
    if not take_lock(lock):
        return "withdrew"
    order.reached("locked")
    if order.not_after_us is not None and time.time_ns() // 1000 > order.not_after_us:
        return "late"
    pid = os.getpid()
    fields = {"by": "shim", "boot_id": order.boot_id, "pid": pid, "start_time": start_time(pid)}
    if not claim_record(folder, "claim", fields):
        return "withdrew"
    order.reached("claimed")
    os.close(folder)
    return None


def _tell(order: Order, report: int, outcome: str) -> None:
    """Report to the agent. If that fails, the agent reads the outcome from the kernel's folder later."""
    pid = os.getpid()
    try:
        os.write(report, f"{outcome} {order.kernel_id} {pid} {start_time(pid)}\n".encode())
    except OSError:
        pass


class _Supervision:
    """Supervision of a running kernel. Times are milliseconds of CLOCK_BOOTTIME."""

    def __init__(self, order: Order, folder: int, report: int) -> None:
        self._order = order
        self._folder = folder
        self._report = report
        self._began = _now()
        self._pid: int | None = None
        """Pid of the main process until it is reaped."""
        self._status: int | None = None
        self._sandbox: int | None = None
        """Read end of the sandbox's status pipe; None without a sandbox."""
        self._unfit: tuple[str, str] | None = None
        """Why the job is not started: `pull_failed` or `preflight_failed`, and the reason."""
        self._failure: tuple[int, str] | None = None
        self._alone = False
        self._kill_at: int | None = None
        self._killing = False
        self._terminals: int | None = None
        """Pid of the program `terminals` while it runs."""
        self._stop_asked = False
        self._timed_out = False
        self._asked_at = 0
        """When the job was last asked to save its work."""

    def live(self, mappings: list[tuple[int, int]]) -> None:
        try:
            self._start()
        except OSError as error:
            self._failure = (NOT_RUNNABLE, f"cannot start: {error.filename or ''} {error.strerror}")
            _tell(self._order, self._report, "failed")
        self._let_go_of_agent()
        self._reap()
        while not self._alone:
            self._keep_time()
            wait_s = self._wait_s()
            # Last before the sleep: any code in between would map pages again.
            drop_pages(mappings)
            self._take_signal(wait_s)
            self._reap()
        self._finish()

    def _start(self) -> None:
        self._make_groups()
        write_secrets(self._order)
        if not (self._has_image() and self._passes_check()):
            _tell(self._order, self._report, "failed")
            return
        child = fork_child(self._order, self._folder)
        self._pid = child.pid
        self._sandbox = child.status
        self._order.reached("child_forked")
        try:
            self._write_pid(child.pid)
        except OSError:
            child.close_gate()
            raise
        self._order.reached("pid_written")
        self._began = self._asked_at = _now()
        child.open_gate()
        self._order.reached("gate_open")
        self._failure = self._see_it_begin(child)
        _tell(self._order, self._report, "failed" if self._failure else "started")

    def _has_image(self) -> bool:
        """Fetch the image if the account lacks it; False if the job is not to start."""
        if self._order.pull is None:
            return True
        pull = Pull(self._order, self._folder, _WOKEN_BY)
        failure = pull.find()
        if failure is not None and failure != STOPPED:
            _tell(self._order, self._report, "pulling")
            failure = pull.fetch()
        return self._goes_on(failure, "pull_failed")

    def _passes_check(self) -> bool:
        """Run the check and wait for the other ranks; False if the job is not to start."""
        if self._order.preflight is None:
            return True
        check = Check(self._order, self._folder, _WOKEN_BY)
        failure = check.run()
        if failure is None:
            _tell(self._order, self._report, "checked")
            failure = check.wait()
        return self._goes_on(failure, "preflight_failed")

    def _goes_on(self, failure: str | None, step: str) -> bool:
        if failure == STOPPED:
            self._stop_asked, self._status = True, signal.SIGTERM
        elif failure is not None:
            self._unfit = (step, failure)
        return failure is None

    def _make_groups(self) -> None:
        for group in own_groups(self._order):
            try:
                os.mkdir(group)
                os.chmod(group, 0o755)  # programs read their limits there
            except FileExistsError:
                pass
        for group, texts in self._order.limit_groups:
            for name, text in texts:
                with open(f"{group}/{name}", "wb", buffering=0) as limit:
                    limit.write(text.encode())
        if self._order.group is not None and self._order.gates:
            close_devices(self._order.group, self._order.gates)

    def _write_pid(self, pid: int) -> None:
        shim = os.getpid()
        fields = {
            "kernel_id": self._order.kernel_id,
            "boot_id": self._order.boot_id,
            "shim_pid": shim,
            "shim_start_time": start_time(shim),
            "pid": pid,
            "start_time": start_time(pid),
            "began_ms": _now(),
            "at_us": time.time_ns() // 1000,
            "takes_limit": True,
        }
        write_record(self._folder, "pid.json", fields)

    def _see_it_begin(self, child: Child) -> tuple[int, str] | None:
        """Wait until the program is executed; None on success, else (exit code, message)."""
        poll = select.poll()
        poll.register(child.complaint, select.POLLIN)
        while not poll.poll(EXEC_LOOK_MS):
            self._keep_time()
            self._take_signal(0)
        complaint = os.read(child.complaint, 4096)
        os.close(child.complaint)
        if not complaint:
            return None
        code, _, message = complaint.decode(errors="replace").partition(" ")
        return int(code), message

    def _let_go_of_agent(self) -> None:
        nothing = os.open("/dev/null", os.O_RDWR)
        os.dup2(nothing, self._report, inheritable=False)
        os.close(nothing)

    def _reap(self) -> None:
        """Reap every ended child; sets `_alone` when none is left."""
        reaped = False
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
                reaped = True
                if ended[0] == self._pid:
                    self._status = ended[1]
                    self._pid = None
                elif ended[0] == self._terminals:
                    self._terminals = None
        except ChildProcessError:
            self._alone = True
            return
        if self._pid is None:
            self._end(LEFTOVER_GRACE_MS)
        if reaped and self._killing:
            kill_tree(os.getpid(), self._order.group)

    def _keep_time(self) -> None:
        due = self._save_due()
        if due is not None and _now() >= due:
            self._asked_at = _now()
            job = None if self._pid is None else self._job()
            if job is not None and catches(job, self._order.checkpoint[0]):
                os.kill(job, self._order.checkpoint[0])
        limit = self._order.time_limit_ms
        if limit is not None and not self._timed_out and _now() >= self._began + limit:
            # A job that ends within the grace period of an earlier stop was stopped, not timed out.
            self._timed_out = not self._stop_asked and self._pid is not None
            self._end(self._order.grace_ms)
        if self._kill_at is not None and _now() >= self._kill_at:
            self._killing = True
            self._kill_at = _now() + KILL_AGAIN_MS
            kill_tree(os.getpid(), self._order.group)

    def _save_due(self) -> int | None:
        """When the job is to be asked next to save its work; None = never, or it is ending."""
        if self._order.checkpoint is None or self._kill_at is not None:
            return None
        _, every, before = self._order.checkpoint
        due = None if every is None else self._asked_at + every
        if self._order.time_limit_ms is not None:
            last = max(self._began + self._order.time_limit_ms - before, self._began + 1)
            if self._asked_at < last:
                due = last if due is None else min(due, last)
        return due

    def _job(self) -> int | None:
        """Pid of the job's main process, or of the client of a daemon that has it, which passes signals on; None if its
        sandbox or container has not started it."""
        if self._order.is_container and not self._order.is_daemons:
            job: int | None = container_job(os.getpid())
            return job
        return self._pid if self._sandbox is None else job_of(self._pid)

    def _end(self, grace_ms: int) -> None:
        """Send SIGTERM to the tree and kill it after the grace period; the earliest deadline wins."""
        kill_at = _now() + grace_ms
        if self._kill_at is None:
            self._kill_at = kill_at
            if grace_ms > 0:
                self._ask_to_end()
        elif not self._killing:
            self._kill_at = min(self._kill_at, kill_at)

    def _ask_to_end(self) -> None:
        """Bubblewrap's processes get no signal: the job would die with them. Without a job, kill immediately.

        Podman's get none either: each of them would pass it on, and the job would get several.
        """
        makers = makers_of(self._pid) if self._sandbox is not None else []
        if self._order.is_container and not self._order.is_daemons and self._pid is not None:
            makers = runtime_processes(os.getpid())
            if not makers:  # asked while it makes the container, Podman would end with the exit code 0
                self._kill_at = _now()
                return
        asked = signal_tree(os.getpid(), signal.SIGTERM, besides=makers)
        signal_tree(os.getpid(), signal.SIGCONT, besides=makers)
        if makers and asked == 0:
            self._kill_at = _now()

    def _wait_s(self) -> float | None:
        """Seconds until the next deadline; None = no deadline."""
        moment = self._kill_at
        if moment is None and self._order.time_limit_ms is not None:
            moment = self._began + self._order.time_limit_ms
        due = self._save_due()
        if due is not None:
            moment = due if moment is None else min(moment, due)
        return None if moment is None else max(0, moment - _now()) / 1000

    def _take_signal(self, wait_s: float | None) -> None:
        found = signal.sigwaitinfo(_WOKEN_BY) if wait_s is None else signal.sigtimedwait(_WOKEN_BY, wait_s)
        if found is None or found.si_signo == signal.SIGCHLD:
            return
        if found.si_signo == signal.SIGTERM:
            self._stop_asked = True
            self._end(self._number("request.json", "grace_ms", self._order.grace_ms))
        elif found.si_signo == signal.SIGUSR1:
            self._open_terminals()
        elif found.si_signo == signal.SIGUSR2:
            known = self._order.time_limit_ms or 0
            self._order.time_limit_ms = self._number("limit.json", "time_limit_ms", known) or None
        elif self._pid is not None:
            job = self._job()
            if job is not None:
                os.kill(job, found.si_signo - FORWARD_FROM)

    def _open_terminals(self) -> None:
        """Start the program `terminals` unless it runs, or the job is ending. It is a new interpreter, because what it
        imports would cost each shim memory."""
        if self._pid is None or self._kill_at is not None or self._terminals is not None:
            return
        file = os.memfd_create("order")
        os.write(file, marshal.dumps(self._order.__dict__, 2))
        os.lseek(file, 0, os.SEEK_SET)
        try:
            pid = os.fork()
        except OSError:
            pid = -1
        if pid == 0:
            try:
                os.dup2(file, 0)
                words = [sys.executable, "-I", "-S", "-E", _TERMINALS, str(self._pid)]
                os.execve(sys.executable, words, {"ALIQUOT_ATTEMPT": self._order.kernel_id})
            finally:
                os._exit(NOT_RUNNABLE)
        os.close(file)
        self._terminals = pid if pid > 0 else None

    def _number(self, name: str, field: str, otherwise: int) -> int:
        """A number from a file that the agent wrote; `otherwise` if there is none."""
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self._folder)
            text = os.read(file, 4096).decode()
            os.close(file)
            return int(text.partition(f'"{field}":')[2].replace("}", ",").partition(",")[0])
        except (OSError, ValueError):
            return otherwise

    def _finish(self) -> None:
        for group in own_groups(self._order):
            try:
                os.rmdir(group)
            except OSError:
                pass  # it has no processes any more; an empty group is harmless
        remove_secrets(self._order)
        code, number, message = self._verdict()
        fields = {
            "kernel_id": self._order.kernel_id,
            "boot_id": self._order.boot_id,
            "evidence": "exit_file",
            "exit_code": code,
            "signal": number,
            "timed_out": self._timed_out,
            "stop_asked": self._stop_asked,
            "ran_ms": max(0, _now() - self._began),
            "cpu_ms": int((os.times().children_user + os.times().children_system) * 1000),
            "at_us": time.time_ns() // 1000,
            "message": message,
            "pull_failed": self._unfit is not None and self._unfit[0] == "pull_failed",
            "preflight_failed": self._unfit is not None and self._unfit[0] == "preflight_failed",
        }
        while not self._write_exit(fields):
            time.sleep(EXIT_AGAIN_S)

    def _write_exit(self, fields: dict[str, int | bool | str | None]) -> bool:
        """False on errors such as a full disk; the lock is kept until the exit record is written."""
        try:
            write_record(self._folder, "exit.json", fields)
        except FileNotFoundError:
            return True  # the folder was deleted: no reader is left
        except OSError:
            return False
        return True

    def _verdict(self) -> tuple[int | None, int | None, str | None]:
        """(exit code, signal, message); exactly one of the first two is set."""
        if self._unfit is not None:
            return NOT_RUNNABLE, None, self._unfit[1]
        if self._failure is not None:
            return self._failure[0], None, self._failure[1]
        assert self._status is not None
        if os.WIFSIGNALED(self._status):
            return None, os.WTERMSIG(self._status), None
        if self._sandbox is not None and not was_entered(self._sandbox):
            return NOT_RUNNABLE, None, "the sandbox could not be created; the end of the output says why"
        return os.WEXITSTATUS(self._status), None, None


def _now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
