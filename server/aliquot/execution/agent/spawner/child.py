"""Job process: forks it, applies user, cgroups, limits and sandbox, and executes the program. Writes secret files.

In a sandbox, bubblewrap puts two processes between the shim and the job, see bwrap(1). The shim's child stays outside
the namespaces and waits. Its child is the first process inside, which reaps, and whose first child is the job. Neither
gets a stop signal: the first would kill the job, and the second ignores it.
"""

import _signal as signal  # type: ignore[import-not-found] # without the enumerations: they cost a shim 0.7 MiB
import errno
import os
import resource

from descendants import children  # type: ignore[import-not-found] # siblings: the folder is run as a program
from libc import prctl  # type: ignore[import-not-found]
from order import Order  # type: ignore[import-not-found]

# ruff: noqa: SIM105 -- importing contextlib would cost each shim memory


NOT_RUNNABLE = 126
NOT_FOUND = 127
"""The shell's exit codes for a program that cannot be run, and for one that does not exist."""

_PR_GET_DUMPABLE = 3
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_MARK = b"ALIQUOT_ATTEMPT"
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
        """Status pipe of the sandbox, see `status_pipe`; None without a sandbox."""
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


def fork_child(order: Order, folder: int, *, output: int | None = None) -> Child:
    """Fork the job's process and prepare it up to the gate.

    If the shim dies, the gate closes and the process ends without starting the program.

    Args:
        output: descriptor of its output; None = the kernel's output.
    """
    complaint, complain = os.pipe()
    gate, opener = os.pipe()
    status, tell = status_pipe(order)
    pid = os.fork()
    if pid == 0:
        os.close(opener)
        _become_job(order, folder=folder, gate=gate, complain=complain, tell=tell, output=output)
    os.close(complain)
    os.close(gate)
    if tell is not None:
        os.close(tell)
    return Child(pid, opener, complaint, status)


def _become_job(order: Order, *, folder: int, gate: int, complain: int, tell: int | None, output: int | None) -> None:
    """Runs in the forked process; never returns."""
    code = NOT_RUNNABLE
    try:
        _prepare(order, folder, output)
        order.reached("child")
        if os.read(gate, 1):
            if tell is not None:
                enter(order, tell)
            execute(order.argv, order.environment)
        code = 0
    except FileNotFoundError as error:
        code = NOT_FOUND if error.filename == order.argv[0] else NOT_RUNNABLE
        os.write(complain, words(code, error))
    except BaseException as error:
        os.write(complain, words(code, error))
    finally:
        os._exit(code)


def _prepare(order: Order, folder: int, output: int | None) -> None:
    os.setsid()
    nothing = os.open("/dev/null", os.O_RDONLY)
    if output is None:
        output = os.open("output.log", os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW, dir_fd=folder)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    join_groups(order)
    switch_account(order, may_gain=order.is_container)
    enter_working_directory(order)
    set_limits(order)


def join_groups(order: Order) -> None:
    """Move this process into the kernel's cgroups."""
    for group in own_groups(order):
        with open(f"{group}/cgroup.procs", "wb", buffering=0) as members:
            members.write(b"0")


def switch_account(order: Order, *, may_gain: bool = False) -> None:
    """Become the job's account, without a way to gain privileges.

    Args:
        may_gain: the program makes a container, for which it may need one (newuidmap); those within it have none.
    """
    os.umask(0o022)
    if order.user is not None:
        uid, gid, groups = order.user
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    if not may_gain:
        _prctl(_PR_SET_NO_NEW_PRIVS)


def enter_working_directory(order: Order) -> None:
    """Change to the job's working directory; the error says which one it is."""
    try:
        os.chdir(order.working_directory)
    except OSError as error:
        raise OSError(error.errno, f"the working directory: {error.strerror}", order.working_directory) from error


def set_limits(order: Order) -> None:
    """Apply the resource limits and reset the signals."""
    # Late, so that this interpreter does not hit a small memory limit.
    for limit, soft, hard in order.limits:
        resource.setrlimit(limit, (soft, hard))
    # All, because an agent that was started with nohup, or in the background of a script, ignores some.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def execute(argv: list[bytes], environment: dict[bytes, bytes]) -> None:
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


def words(code: int, error: BaseException) -> bytes:
    """The exit code and the message of a program that could not be run."""
    if isinstance(error, OSError):
        name = error.filename.decode(errors="replace") if isinstance(error.filename, bytes) else error.filename
        text = f"cannot run: {name}: {error.strerror}" if name else f"cannot run: {error.strerror}"
    else:
        text = f"cannot run: {error}"
    return f"{code} {text}".encode(errors="replace")[:2000]


def _prctl(option: int) -> None:
    if prctl(option, 1, 0, 0, 0) != 0:
        raise OSError(errno.EINVAL, f"prctl {option} failed")


def status_pipe(order: Order) -> tuple[int | None, int | None]:
    """(read end, write end) of bubblewrap's status pipe; (None, None) without a sandbox."""
    return os.pipe() if order.sandbox is not None else (None, None)


def enter(order: Order, tell: int) -> None:
    """Replace this process by bubblewrap; returns only by an exception.

    Bubblewrap gets the job's environment as arguments in a private file. With LD_PRELOAD in its own environment it
    would run the job's code outside the sandbox.
    """
    assert order.sandbox is not None
    program, arguments = order.sandbox
    file = os.memfd_create("sandbox", 0)
    os.write(file, arguments)
    os.lseek(file, 0, os.SEEK_SET)
    os.set_inheritable(tell, True)
    words = [program, b"--args", b"%d" % file, b"--json-status-fd", b"%d" % tell, b"--"]
    environment = {_MARK: order.environment[_MARK]}
    os.execve(program, [*words, *_looked_up(order.argv)], environment)


def was_entered(status: int) -> bool:
    """Whether the command in the sandbox was started; called once, when the shim's child has ended."""
    received = b""
    os.set_blocking(status, False)
    try:
        while part := os.read(status, 4096):
            received += part
    except BlockingIOError:
        pass  # a process in the sandbox still has it open
    os.close(status)
    return b'"exit-code"' in received


def makers_of(child: int | None) -> list[int]:
    """Pids of bubblewrap's own processes."""
    return [] if child is None else [child, *children(child)]


def job_of(child: int) -> int | None:
    """Pid of the job; None before it starts."""
    for first in children(child):
        for job in children(first):
            return int(job)
    return None


def _looked_up(argv: list[bytes]) -> list[bytes]:
    """A command that searches the program in the job's PATH, and exits with 126 or 127 if it cannot run.

    env(1) takes a name with '=' for a variable. A shell does not, but drops variables whose names it does not support.
    """
    if b"=" in argv[0]:
        return [b"/bin/sh", b"-c", b'exec "$0" "$@"', *argv]
    return [b"/usr/bin/env", b"--", *argv]


def write_secrets(order: Order) -> None:
    """Create the folder and its files; only the agent may write to the parent folder."""
    if order.secret_files is None:
        return
    path, files = order.secret_files
    os.mkdir(path, 0o700)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name, content in files:
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
            while content:  # on a nearly full file system a write is partial, and the next one fails
                content = content[os.write(file, content) :]
            if order.user is not None:
                os.fchown(file, order.user[0], order.user[1])
            os.close(file)
        if order.user is not None:
            os.fchown(folder, order.user[0], order.user[1])
    finally:
        os.close(folder)


def remove_secrets(order: Order) -> None:
    """Remove the folder and all files in it; subfolders made by the job are removed by the agent."""
    if order.secret_files is None:
        return
    try:
        folder = os.open(order.secret_files[0], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    for name in os.listdir(folder):
        try:
            os.unlink(name, dir_fd=folder)
        except OSError:
            pass
    os.close(folder)
    try:
        os.rmdir(order.secret_files[0])
    except OSError:
        pass
