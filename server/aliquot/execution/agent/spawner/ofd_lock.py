"""Open-file-description locks: a shim holds one for its whole life; other processes only test it."""

import fcntl
import os
import struct

_SET = 37
_GET = 36
"""`F_OFD_SETLK` and `F_OFD_GETLK` of <fcntl.h>; the fcntl module has them only where it was built with new headers."""
_FLOCK = "hhqqi4x"
"""`struct flock` of 64-bit Linux: type, whence, start, length, pid."""


def take(file: int) -> bool:
    """Lock a file that is open for writing, without waiting; False if it is locked already."""
    try:
        fcntl.fcntl(file, _SET, struct.pack(_FLOCK, fcntl.F_WRLCK, 0, 0, 0, 0))
    except (BlockingIOError, PermissionError):
        return False
    return True


def is_held(path: str) -> bool:
    """Whether a file is locked; False if it does not exist. Only tests the lock, so that no start can fail because of
    it."""
    try:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        answer = fcntl.fcntl(file, _GET, struct.pack(_FLOCK, fcntl.F_WRLCK, 0, 0, 0, 0))
    finally:
        os.close(file)
    return int(struct.unpack(_FLOCK, answer)[0]) != fcntl.F_UNLCK
