"""The limit of one output: its beginning and its newest part stay, what is between is cut out of the file.

The file keeps its length, so that every byte keeps its offset: what was cut out is a hole that takes no room, and a
line in front of what follows says how much it was. The job goes on writing at the end, and notices nothing.
"""

import ctypes
import errno
import logging
import os
from pathlib import Path
from typing import Final

_KEEP_SIZE: Final = 0x01
_PUNCH_HOLE: Final = 0x02
_BLOCK_BYTES: Final = 512
"""The unit of `st_blocks`, whatever the file system."""
_UNSUPPORTED: Final = (errno.EOPNOTSUPP, errno.ENOSYS)

_log: Final = logging.getLogger(__name__)
_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def hold_to(path: Path, *, most: int) -> int:
    """Cut out the middle of a file that takes more room than it may; a quarter stays of the beginning, and half of the
    end, so that there is something to write until the next cut. Blocks on the disk.

    Args:
        most: bytes on the disk.
    Returns:
        How many bytes are left out of the file, from its beginning on; 0 = nothing was to be done.
    Raises:
        OSError: it cannot be done on this file system.
    """
    try:
        # As the agent, so that a job cannot get out of it by taking the right to read its output from itself.
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        return _cut(file, most=most)
    finally:
        os.close(file)


class OutputLimit:
    """Holds outputs to it again and again. Two threads at once do no harm, but for words that are logged twice."""

    def __init__(self, most: int | None) -> None:
        """
        Args:
            most: bytes on the disk of one output; None = there is no limit.
        """
        self._most = most

    def hold(self, path: Path) -> None:
        """Hold one output to the limit. Where the file system cannot do that, it is said once, and not tried again."""
        if self._most is None:
            return
        try:
            left_out = hold_to(path, most=self._most)
        except OSError as error:
            _log.warning("%s: the output is longer than %d bytes, and cannot be cut: %s", path, self._most, error)
            if error.errno in _UNSUPPORTED:
                self._most = None
            return
        if left_out:
            _log.warning("%s: the output is longer than %d bytes; %d of them are left out", path, self._most, left_out)


def words_of(left_out: int, *, most: int) -> bytes:
    """The line in front of what follows a hole; always of the same length."""
    return f"\n[aliquot: {left_out:019d} bytes are left out here, for an output keeps {most} of them]\n".encode()


def _cut(file: int, *, most: int) -> int:
    status = os.fstat(file)
    if status.st_blocks * _BLOCK_BYTES <= most:
        return 0
    step = status.st_blksize
    head = -(-(most // 4) // step) * step
    tail = (status.st_size - most // 2) // step * step
    words = words_of(0, most=most)
    if tail - head < step or status.st_size - tail < len(words):
        return 0
    left_out = tail + len(words) - head
    # The line first: whoever jumps over the hole meanwhile finds it.
    before = os.pread(file, len(words), tail)
    os.pwrite(file, words_of(left_out, most=most), tail)
    if _libc.fallocate(file, _PUNCH_HOLE | _KEEP_SIZE, head, tail - head) != 0:
        number = ctypes.get_errno()
        os.pwrite(file, before, tail)
        raise OSError(number, os.strerror(number))
    return left_out
