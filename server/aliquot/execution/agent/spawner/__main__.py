"""Spawner: forks one shim per request. Run as `python -I -S -E FOLDER` with an empty environment.

Everything is imported before the first fork, so shims share that memory, need no Python files later, and start within
a millisecond. A request on stdin is its length in four bytes (little endian) and a marshalled dictionary with the
attributes of `Order`. Reports go to stdout, see `shim.run`. The spawner ends at the end of stdin; shims keep running.
"""

import _signal as signal  # type: ignore[import-not-found] # without the enumerations: they cost a shim 0.7 MiB
import gc
import marshal
import os
import sys

from file_pages import clean_mappings  # type: ignore[import-not-found] # siblings: the folder is run as a program
from order import Order  # type: ignore[import-not-found]
from shim import run  # type: ignore[import-not-found]

REQUESTS = 0
REPORT = 1


def main() -> None:
    signal.signal(signal.SIGCHLD, _reap)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    # A frozen agent must not block its shims: a report that cannot be written is dropped.
    os.set_blocking(REPORT, False)
    os.umask(0o077)
    mappings = clean_mappings()
    gc.disable()
    gc.freeze()
    while (length := _read(4)) is not None:
        request = _read(int.from_bytes(length, "little"))
        if request is None:
            return
        _spawn(request, mappings)


def _spawn(request: bytes, mappings: list[tuple[int, int]]) -> None:
    """Fork; the shim does the rest, because a page that the spawner writes to is not shared with later shims."""
    try:
        pid = os.fork()
    except OSError:
        return  # the agent misses the report and repeats the request
    if pid == 0:
        try:
            _replace_stdin()
            run(Order(marshal.loads(request)), REPORT, mappings)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(0)


def _reap(_number: int, _frame: object) -> None:
    """Wait for ended shims; those of a dead spawner are reaped by init."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        pass


def _replace_stdin() -> None:
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, REQUESTS, inheritable=False)
    os.close(nothing)


def _read(length: int) -> bytes | None:
    """Read exactly `length` bytes; None at the end of the input."""
    parts: list[bytes] = []
    while length > 0:
        part = os.read(REQUESTS, min(length, 1 << 20))
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


main()
