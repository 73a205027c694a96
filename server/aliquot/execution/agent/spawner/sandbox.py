"""A job in a sandbox: between the shim and the job are two processes that make it, see bwrap(1).

The shim's child stays outside of the namespaces and waits; its child is the first process within, which reaps, and
whose first child is the job. Neither is asked to end: the first would take the job with it, and the second hears
nothing.
"""

import os

from descendants import children  # type: ignore[import-not-found] # siblings: the folder is run as a program
from order import Order  # type: ignore[import-not-found]

_MARK = b"ALIQUOT_ATTEMPT"


def status_pipe(order: Order) -> tuple[int | None, int | None]:
    """(to read, to write): what the sandbox tells of itself; nothing without one."""
    return os.pipe() if order.sandbox is not None else (None, None)


def enter(order: Order, tell: int) -> None:
    """Replace this process; comes back only by an exception.

    The program gets the job's environment as an argument, and in a file that nobody else can open: with LD_PRELOAD in
    its own it would run the job's code outside.
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
    """Whether the command in the sandbox was begun; asked once, when the child of the shim has ended."""
    told = b""
    os.set_blocking(status, False)
    try:
        while part := os.read(status, 4096):
            told += part
    except BlockingIOError:
        pass  # somebody in the sandbox has it still
    os.close(status)
    return b'"exit-code"' in told


def makers_of(child: int | None) -> list[int]:
    """The processes that make the sandbox."""
    return [] if child is None else [child, *children(child)]


def job_of(child: int) -> int | None:
    """The job itself; None before it was begun."""
    for first in children(child):
        for job in children(first):
            return int(job)
    return None


def _looked_up(argv: list[bytes]) -> list[bytes]:
    """A command that looks the program up in the job's own PATH, and ends with 126 or 127 where it cannot be run.

    env(1) takes a name with an equals sign for a variable; a shell does not, but drops variables that it cannot name.
    """
    if b"=" in argv[0]:
        return [b"/bin/sh", b"-c", b'exec "$0" "$@"', *argv]
    return [b"/usr/bin/env", b"--", *argv]
