"""Job user: the Unix account that jobs run as, and opening of files that a job can replace.

Such files are opened with the account's own permissions, see setfsuid(2). A link, pipe or device that the job put in
the file's place is not followed or waited for, and gives no access to files that only root may read.
"""

import ctypes
import errno
import os
import pwd
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec import Struct

from aliquot_schema.errors import Forbidden, InvalidRequest

KEPT_S: Final = 10.0
"""Changes of an account or of its groups take effect after this time."""
WORK: Final = "work"
"""Folder of the job's account beside its output: the initial working directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUserPolicy:
    """Which accounts may run jobs on this host."""

    name: str | None = None
    """Default account; None = the agent's own, or, if that is root, SUDO_UID's, else `nobody`."""
    allow_root: bool = False
    """Whether uid 0 is accepted."""


class JobUser(Struct, frozen=True, kw_only=True):
    """A resolved account."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str
    switches: bool
    """Whether the shim has to switch to it; False if the agent itself runs as this user."""


def resolve_user(policy: JobUserPolicy, *, asked: str | None, uid: int, environment: Mapping[str, str]) -> JobUser:
    """Resolve the account for an order.

    Args:
        asked: the account named in the order.
        uid: the agent's effective uid; only root can switch to another account.
        environment: the agent's environment, for SUDO_UID.
    Raises:
        InvalidRequest: the account does not exist.
        Forbidden: the account is root, or the agent cannot switch to it.
    """
    entry = _entry(policy, asked=asked, uid=uid, environment=environment)
    if uid != 0 and entry.pw_uid != uid:
        raise Forbidden(f"the agent does not run as root, so jobs cannot run as {entry.pw_name}")
    if entry.pw_uid == 0 and not policy.allow_root:
        raise Forbidden("jobs must not run as root here; name another account, or start with --allow-root-jobs")
    return JobUser(
        name=entry.pw_name,
        uid=entry.pw_uid,
        gid=entry.pw_gid,
        groups=tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)),
        home=entry.pw_dir,
        shell=entry.pw_shell or "/bin/sh",
        switches=uid == 0,
    )


class JobUsers:
    """Resolved accounts. A directory service may be slow, so each is kept for `KEPT_S`."""

    def __init__(self, policy: JobUserPolicy) -> None:
        self._policy = policy
        self._known: dict[str | None, tuple[float, JobUser]] = {}

    def of(self, asked: str | None) -> JobUser:
        """The account that an order names, or the default one; raises the errors of `resolve_user`."""
        now_s = time.monotonic()
        known = self._known.get(asked)
        if known is None or known[0] <= now_s:
            user = resolve_user(self._policy, asked=asked, uid=os.geteuid(), environment=os.environ)
            known = self._known[asked] = now_s + KEPT_S, user
        return known[1]


def account_exists(name: str) -> bool:
    """Whether this host has an account of this name."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _entry(policy: JobUserPolicy, *, asked: str | None, uid: int, environment: Mapping[str, str]) -> pwd.struct_passwd:
    name = asked or policy.name
    if name is not None:
        return _by_name(name)
    if uid != 0:
        return _by_uid(uid)
    sudo_uid = environment.get("SUDO_UID", "")
    if sudo_uid.isdecimal() and sudo_uid != "0":
        return _by_uid(int(sudo_uid))
    return _by_name("nobody")


def _by_name(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise InvalidRequest(f"there is no account {name!r} on host {socket.gethostname()}", field="user") from None


def _by_uid(uid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return pwd.struct_passwd((str(uid), "x", uid, os.getgid(), "", "/nonexistent", "/bin/sh"))


_libc: Final = ctypes.CDLL(None, use_errno=True)
_SAFELY: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def open_job_file(path: Path, flags: int, *, beside: Path) -> int:
    """Open a regular file with the permissions of the job's account; returns a descriptor.

    Args:
        path: a path below the parent folder of `beside`.
        beside: a folder that is owned by the job's account and that the account cannot replace.
    Raises:
        FileNotFoundError: the file does not exist or is not a regular file.
        PermissionError: the account may not open it.
    """
    owner = os.lstat(beside)
    # The parent folder is the agent's and opened as the agent: the account may have no access to the path above it.
    folder = os.open(beside.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with acting_as(owner.st_uid, owner.st_gid):
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
def acting_as(uid: int, gid: int) -> Iterator[None]:
    """Switch the thread's file-system identity; no effect unless the agent is root."""
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
    return FileNotFoundError(errno.ENOENT, "not a regular file", str(path))
