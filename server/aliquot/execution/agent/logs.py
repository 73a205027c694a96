"""Output files: following a kernel's output from a byte offset, and limiting its size on disk.

Above the limit the middle of the file becomes a hole; the beginning and the newest part stay. The file keeps its
length, so every byte keeps its offset. A line after the hole says how much was cut. The job keeps appending unaware.
"""

import asyncio
import ctypes
import errno
import logging
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from aliquot.execution.agent.job_user import WORK, open_job_file
from aliquot_schema.cluster.launching import OUTPUT_END, LogChunk
from aliquot_schema.errors import InvalidRequest

CHUNK_BYTES: Final = 64 * 1024
_POLL_S_MIN: Final = 0.002
_POLL_S_MAX: Final = 0.05
"""Polling interval while the output does not grow. Inotify has a limit per user that many followers would reach."""


async def follow(path: Path, *, offset: int, has_ended: Callable[[], bool]) -> AsyncIterator[LogChunk]:
    """Read a file that grows until the kernel has ended; the last chunk has `at_end` and may be empty.

    After a hole the next chunk begins behind the end of the previous one. With `OUTPUT_END` as offset, the first chunk
    is empty, is sent immediately, and begins at the current end of the file.

    Raises:
        InvalidRequest: the offset is negative.
        FileNotFoundError: the file does not exist. PermissionError: the job removed its own read permission.
    """
    if offset < 0:
        raise InvalidRequest(f"offset is {offset}; it must be 0 or more", field="offset")
    file = open_job_file(path, os.O_RDONLY, beside=path.with_name(WORK))
    try:
        pause_s = _POLL_S_MIN
        if offset == OUTPUT_END:
            offset = os.fstat(file).st_size
            yield LogChunk(offset=offset, data=b"", at_end=False)
        while True:
            ended = has_ended()  # before the read: if it has ended, the read returns everything
            offset, data = _read(file, offset)
            at_end = ended and offset + len(data) >= os.fstat(file).st_size
            if data or at_end:
                yield LogChunk(offset=offset, data=data, at_end=at_end)
                offset += len(data)
                pause_s = _POLL_S_MIN
            if at_end:
                return
            if not data:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, _POLL_S_MAX)
    finally:
        os.close(file)


def _read(file: int, offset: int) -> tuple[int, bytes]:
    """(offset, bytes) of the next data at or after `offset`, behind a hole if there is one; empty at the end.

    The read offset is capped because the system rejects offsets near 2**63. Holes are located after the read, because
    a part that is cut in between reads as zeros. A hole that a job made, by truncating its output to a larger size,
    begins and ends within blocks; the zeros around it belong to it.
    """
    while data := os.pread(file, CHUNK_BYTES, min(offset, OUTPUT_END)):
        begin = _seek(file, offset, os.SEEK_DATA)
        if begin > offset:
            offset = begin
            continue
        end = min(offset + len(data), _seek(file, offset, os.SEEK_HOLE))
        found = data[: end - offset]
        if offset > 0 and _seek(file, offset - 1, os.SEEK_DATA) >= offset:
            found = found.lstrip(b"\0")
        begin = end - len(found)
        if _seek(file, end, os.SEEK_DATA) > end:
            found = found.rstrip(b"\0")
        if found:
            return begin, found
        offset = end
    return offset, b""


def _seek(file: int, offset: int, what: int) -> int:
    """Offset of the next data or hole at or after `offset`; the end of the file if there is none."""
    try:
        return os.lseek(file, offset, what)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return os.fstat(file).st_size


_KEEP_SIZE: Final = 0x01
_PUNCH_HOLE: Final = 0x02
_BLOCK_BYTES: Final = 512
"""The unit of `st_blocks` on every file system."""
_UNSUPPORTED: Final = (errno.EOPNOTSUPP, errno.ENOSYS)

_log: Final = logging.getLogger(__name__)
_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def truncate_middle(path: Path, *, bytes_max: int) -> int:
    """Cut the middle out of a file that exceeds a size on disk. Blocks on disk I/O.

    The first quarter and the last half of `bytes_max` stay, so that the file can grow by a quarter until the next cut.

    Args:
        bytes_max: bytes on disk.
    Returns:
        Bytes cut out of the file in total; 0 = the file is not above the limit.
    Raises:
        OSError: the file system does not support holes.
    """
    try:
        if os.lstat(path).st_blocks * _BLOCK_BYTES <= bytes_max:
            return 0  # also on a file system that cannot be written now
        # Opened as the agent: a job must not evade the limit by removing its own read permission.
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        return _cut(file, bytes_max=bytes_max)
    finally:
        os.close(file)


class OutputLimit:
    """Size limit of output files. Concurrent calls are harmless; at worst a message is logged twice."""

    def __init__(self, bytes_max: int | None) -> None:
        """
        Args:
            bytes_max: bytes on disk per output; None = no limit.
        """
        self._bytes_max = bytes_max

    def apply(self, path: Path) -> None:
        """Apply the limit to one output. A file system without support for it is logged once and not retried."""
        if self._bytes_max is None:
            return
        try:
            cut_bytes = truncate_middle(path, bytes_max=self._bytes_max)
        except OSError as error:
            _log.warning("%s: the output exceeds %d bytes and cannot be cut: %s", path, self._bytes_max, error)
            if error.errno in _UNSUPPORTED:
                self._bytes_max = None
            return
        if cut_bytes:
            _log.warning("%s: the output exceeds %d bytes; %d bytes were cut out", path, self._bytes_max, cut_bytes)


def gap_line(cut_bytes: int, *, bytes_max: int) -> bytes:
    """The line after a hole; its length does not depend on `cut_bytes`."""
    return (
        f"\n[aliquot: {cut_bytes:019d} bytes are cut out here; the limit of an output is {bytes_max} bytes]\n".encode()
    )


def _cut(file: int, *, bytes_max: int) -> int:
    status = os.fstat(file)
    if status.st_blocks * _BLOCK_BYTES <= bytes_max:
        return 0
    step = status.st_blksize
    head = -(-(bytes_max // 4) // step) * step
    tail = (status.st_size - bytes_max // 2) // step * step
    line = gap_line(0, bytes_max=bytes_max)
    if tail - head < step or status.st_size - tail < len(line):
        return 0
    cut_bytes = tail + len(line) - head
    # The line first, so that a reader that skips the hole always finds it.
    before = os.pread(file, len(line), tail)
    os.pwrite(file, gap_line(cut_bytes, bytes_max=bytes_max), tail)
    if _libc.fallocate(file, _PUNCH_HOLE | _KEEP_SIZE, head, tail - head) != 0:
        number = ctypes.get_errno()
        os.pwrite(file, before, tail)
        raise OSError(number, os.strerror(number))
    return cut_bytes
