"""Open-file-description locks: held by a shim for life, asked for by everybody else and never taken by them."""

import fcntl
import os
import struct

_SET = 37
_GET = 36
"""`F_OFD_SETLK` and `F_OFD_GETLK` of <fcntl.h>; the fcntl module has them only where it was built with new headers."""
_FLOCK = "hhqqi4x"
"""`struct flock` of 64-bit Linux: type, whence, start, length, pid."""


def take(file: int) -> bool:
    """Lock a file that is open for writing, without waiting; False when somebody else has it."""
    try:
        fcntl.fcntl(file, _SET, struct.pack(_FLOCK, fcntl.F_WRLCK, 0, 0, 0, 0))
    except (BlockingIOError, PermissionError):
        return False
    return True


def is_held(path: str) -> bool:
    """Whether somebody holds the lock on a file; False when it is not there. Takes nothing, so that no start can fail
    by it."""
    try:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        answer = fcntl.fcntl(file, _GET, struct.pack(_FLOCK, fcntl.F_WRLCK, 0, 0, 0, 0))
    finally:
        os.close(file)
    return int(struct.unpack(_FLOCK, answer)[0]) != fcntl.F_UNLCK
