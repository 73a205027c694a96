"""The Unix account that jobs run as."""

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass

from aliquot_schema.errors import Forbidden, InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUserPolicy:
    """Who may run jobs here."""

    name: str | None = None
    """The account for orders that name none; None = as root SUDO_UID's, else `nobody`."""
    allow_root: bool = False
    """Whether uid 0 is accepted at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUser:
    """An account, looked up."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str
    switches: bool
    """Whether the shim has to change to it; False when the agent runs as this user itself."""


def resolve_user(policy: JobUserPolicy, *, asked: str | None, uid: int, environment: Mapping[str, str]) -> JobUser:
    """Find the account for an order.

    Args:
        asked: the account that the order names.
        uid: the agent's own effective uid; only root can change to another.
        environment: the agent's own, for SUDO_UID.
    Raises:
        InvalidRequest: there is no such account.
        Forbidden: it is root, or the agent cannot change to it.
    """
    entry = _entry(policy, asked=asked, uid=uid, environment=environment)
    if uid != 0 and entry.pw_uid != uid:
        raise Forbidden(f"the agent does not run as root, so jobs cannot run as {entry.pw_name}")
    if entry.pw_uid == 0 and not policy.allow_root:
        raise Forbidden("jobs do not run as root here; name another account, or start with --allow-root-jobs")
    return JobUser(
        name=entry.pw_name,
        uid=entry.pw_uid,
        gid=entry.pw_gid,
        groups=tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)),
        home=entry.pw_dir,
        shell=entry.pw_shell or "/bin/sh",
        switches=uid == 0,
    )


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
        raise InvalidRequest(f"there is no account {name!r} on this host", field="user") from None


def _by_uid(uid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return pwd.struct_passwd((str(uid), "x", uid, os.getgid(), "", "/nonexistent", "/bin/sh"))
