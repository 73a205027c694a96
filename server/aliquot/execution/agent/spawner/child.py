"""Job process: forks it, applies user, cgroups and limits, and executes the job's program."""

import _signal as signal  # type: ignore[import-not-found] # without the enumerations: they cost a shim 0.7 MiB
import errno
import os
import resource

from libc import prctl  # type: ignore[import-not-found] # siblings: the folder is run as a program
from order import Order  # type: ignore[import-not-found] # a sibling: the folder is run as a program
from sandbox import enter, status_pipe  # type: ignore[import-not-found] # a sibling: the folder is run as a program

# ruff: noqa: SIM105 -- importing contextlib would cost each shim memory


NOT_RUNNABLE = 126
NOT_FOUND = 127
"""The shell's exit codes for a program that cannot be run, and for one that does not exist."""

_PR_GET_DUMPABLE = 3
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PATH = b"/usr/local/bin:/usr/bin:/bin"

# The first call fills caches; made before the fork, so that shims share these pages.
prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0)


def own_groups(order: Order) -> list[str]:
    """The kernel's cgroups without duplicates."""
    groups = [] if order.group is None else [order.group]
    return groups + [group for group, _ in order.limit_groups if group != order.group]


class Child:
    """A forked process that waits at a gate: if it is opened the program starts, if it is closed the process ends."""

    def __init__(self, pid: int, gate: int, complaint: int, status: int | None) -> None:
        self.pid = pid
        self.complaint = complaint
        """Pipe: closed without data when the program has started; else it has `<exit code> <message>`."""
        self.status = status
        """Status pipe of the sandbox, see `sandbox`; None without a sandbox."""
        self._gate = gate

    def open_gate(self) -> None:
        """Start the program."""
        try:
            os.write(self._gate, b"\n")
        except BrokenPipeError:
            pass  # the process failed before the gate and has reported that
        os.close(self._gate)

    def close_gate(self) -> None:
        """End the process without starting the program."""
        os.close(self._gate)


def become_subreaper() -> None:
    """Make this process the parent of orphans among its descendants."""
    _prctl(_PR_SET_CHILD_SUBREAPER)


def fork_child(order: Order, folder: int) -> Child:
    """Fork the job's process and prepare it up to the gate.

    If the shim dies, the gate closes and the process ends without starting the program.
    """
    complaint, complain = os.pipe()
    gate, opener = os.pipe()
    status, tell = status_pipe(order)
    pid = os.fork()
    if pid == 0:
        os.close(opener)
        _become_job(order, folder=folder, gate=gate, complain=complain, tell=tell)
    os.close(complain)
    os.close(gate)
    if tell is not None:
        os.close(tell)
    return Child(pid, opener, complaint, status)


def _become_job(order: Order, *, folder: int, gate: int, complain: int, tell: int | None) -> None:
    """Runs in the forked process; never returns."""
    code = NOT_RUNNABLE
    try:
        _prepare(order, folder)
        order.reached("child")
        if os.read(gate, 1):
            if tell is not None:
                enter(order, tell)
            _execute(order.argv, order.environment)
        code = 0
    except FileNotFoundError as error:
        code = NOT_FOUND if error.filename == order.argv[0] else NOT_RUNNABLE
        os.write(complain, _words(code, error))
    except BaseException as error:
        os.write(complain, _words(code, error))
    finally:
        os._exit(code)


def _prepare(order: Order, folder: int) -> None:
    os.setsid()
    for group in own_groups(order):
        with open(f"{group}/cgroup.procs", "wb", buffering=0) as members:
            members.write(b"0")
    nothing = os.open("/dev/null", os.O_RDONLY)
    output = os.open("output.log", os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW, dir_fd=folder)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.umask(0o022)
    if order.user is not None:
        uid, gid, groups = order.user
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    _prctl(_PR_SET_NO_NEW_PRIVS)
    try:
        os.chdir(order.working_directory)
    except OSError as error:
        raise OSError(error.errno, f"the working directory: {error.strerror}", order.working_directory) from error
    # Late, so that this interpreter does not hit a small memory limit.
    for limit, soft, hard in order.limits:
        resource.setrlimit(limit, (soft, hard))
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _execute(argv: list[bytes], environment: dict[bytes, bytes]) -> None:
    """Replace this process; returns only by an exception. All descriptors above 2 are close-on-exec."""
    if b"/" in argv[0]:
        _execute_file(argv[0], argv, environment)
    denied: PermissionError | None = None
    for place in environment.get(b"PATH", _PATH).split(b":"):
        try:
            os.execve(os.path.join(place or b".", argv[0]), argv, environment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            denied = error
    raise denied or FileNotFoundError(errno.ENOENT, "no such program in PATH", argv[0])


def _execute_file(path: bytes, argv: list[bytes], environment: dict[bytes, bytes]) -> None:
    try:
        os.execve(path, argv, environment)
    except FileNotFoundError as error:
        # execve(2) reports a missing interpreter like a missing script.
        reason = "its interpreter does not exist" if os.path.exists(path) else os.strerror(errno.ENOENT)
        raise FileNotFoundError(errno.ENOENT, reason, path) from error


def _words(code: int, error: BaseException) -> bytes:
    if isinstance(error, OSError):
        name = error.filename.decode(errors="replace") if isinstance(error.filename, bytes) else error.filename
        text = f"cannot run: {name}: {error.strerror}" if name else f"cannot run: {error.strerror}"
    else:
        text = f"cannot run: {error}"
    return f"{code} {text}".encode(errors="replace")[:2000]


def _prctl(option: int) -> None:
    if prctl(option, 1, 0, 0, 0) != 0:
        raise OSError(errno.EINVAL, f"prctl {option} failed")
