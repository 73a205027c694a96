"""Sandboxed jobs: bubblewrap puts two processes between the shim and the job, see bwrap(1).

The shim's child stays outside the namespaces and waits. Its child is the first process inside, which reaps, and whose
first child is the job. Neither gets a stop signal: the first would kill the job, and the second ignores it.
"""

import os

from descendants import children  # type: ignore[import-not-found] # siblings: the folder is run as a program
from order import Order  # type: ignore[import-not-found]

_MARK = b"ALIQUOT_ATTEMPT"


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
    told = b""
    os.set_blocking(status, False)
    try:
        while part := os.read(status, 4096):
            told += part
    except BlockingIOError:
        pass  # a process in the sandbox still has it open
    os.close(status)
    return b'"exit-code"' in told


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
