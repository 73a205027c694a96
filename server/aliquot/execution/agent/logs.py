"""A kernel's output, followed from any byte."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from aliquot.execution.agent.job_files import open_job_file
from aliquot.execution.agent.kernel_folder import WORK
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.launching import OUTPUT_END, LogChunk

CHUNK_BYTES: Final = 64 * 1024
_LOOK_S_MIN: Final = 0.002
_LOOK_S_MAX: Final = 0.05
"""While somebody follows a quiet kernel, its file is looked at this often. An inotify watch would save that, but has a
limit per user that many followers of many kernels reach."""


async def follow(path: Path, *, offset: int, has_ended: Callable[[], bool]) -> AsyncIterator[LogChunk]:
    """Read a file that grows until the kernel has ended; the last chunk is `at_end`, and may be empty.

    Where something was cut out of the file the next chunk begins further on than the one before ended. From
    `OUTPUT_END` on, an empty chunk comes first and at once, which begins where the file ends now.

    Raises:
        InvalidRequest: the offset is negative.
        FileNotFoundError: there is no such file. PermissionError: the job took the right to read it from itself.
    """
    if offset < 0:
        raise InvalidRequest("an offset is at least 0", field="offset")
    file = open_job_file(path, os.O_RDONLY, beside=path.with_name(WORK))
    try:
        pause_s = _LOOK_S_MIN
        if offset == OUTPUT_END:
            offset = os.fstat(file).st_size
            yield LogChunk(offset=offset, data=b"", at_end=False)
        while True:
            ended = has_ended()  # asked before the read: what is read afterwards is all there is
            offset, data = _read(file, offset)
            at_end = ended and offset + len(data) >= os.fstat(file).st_size
            if data or at_end:
                yield LogChunk(offset=offset, data=data, at_end=at_end)
                offset += len(data)
                pause_s = _LOOK_S_MIN
            if at_end:
                return
            if not data:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, _LOOK_S_MAX)
    finally:
        os.close(file)


def _read(file: int, offset: int) -> tuple[int, bytes]:
    """(where it begins, the next bytes); from the end of a hole on, if there is one. Nothing is found at the end.

    The system refuses offsets near 2**63, which are none for a reader.
    Where the holes are is asked after the read: what is cut out meanwhile reads as zeros.
    """
    while data := os.pread(file, CHUNK_BYTES, min(offset, OUTPUT_END)):
        begin = _seek(file, offset, os.SEEK_DATA)
        if begin == offset:
            return offset, data[: _seek(file, offset, os.SEEK_HOLE) - offset]
        offset = begin
    return offset, b""


def _seek(file: int, offset: int, what: int) -> int:
    """The next data, or hole, at an offset or after it; the end of the file if there is none."""
    try:
        return os.lseek(file, offset, what)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return os.fstat(file).st_size
