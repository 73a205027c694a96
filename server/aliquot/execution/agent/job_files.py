"""Files that a job can write, opened with no more rights than its own account has.

The thread's file-system identity is changed for the moment of opening, see setfsuid(2): what the job may have put in
the file's place, a link, a pipe or a device, is neither followed nor waited for, and nothing opens that only root may
read.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_libc: Final = ctypes.CDLL(None, use_errno=True)
_SAFELY: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def open_job_file(path: Path, flags: int, *, beside: Path) -> int:
    """A descriptor of a regular file.

    Args:
        path: below the folder that `beside` is in.
        beside: a folder that belongs to the job's account, and lies where that account cannot replace it.
    Raises:
        FileNotFoundError: it is not there, or is no regular file.
        PermissionError: the account may not open it.
    """
    owner = os.lstat(beside)
    # The folder that both are in is ours: the account needs no way to it, as when its folder is below one of root's.
    folder = os.open(beside.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with _acting_as(owner.st_uid, owner.st_gid):
            file = os.open(path.relative_to(beside.parent), flags | _SAFELY, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _no_file(path) from None
        raise
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise _no_file(path)
    return file


@contextmanager
def _acting_as(uid: int, gid: int) -> Iterator[None]:
    """Nothing changes where the agent is not root: then it is the job's account itself."""
    if os.geteuid() != 0 or uid == 0:
        yield
        return
    _libc.setfsgid(gid)
    _libc.setfsuid(uid)
    try:
        yield
    finally:
        _libc.setfsuid(0)
        _libc.setfsgid(os.getegid())


def _no_file(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "there is no file, but something else", str(path))
