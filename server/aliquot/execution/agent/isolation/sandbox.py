"""Sandbox: the profile `standard` as bubblewrap arguments, and a test whether bubblewrap works for an account.

The job's account itself creates the sandbox, in a user namespace; nothing runs as root. A kernel sees

    /usr /bin /lib* /sbin /etc /opt /sys   the host's, read-only
    /tmp /var/tmp /dev/shm /run            private, initially empty
    /dev /proc                             private: basic and granted devices, and its own processes
    home, sandbox-mounts                   the host's
    the kernel's folders                   the only files of the agent; none of the server

The network is shared with the host.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from aliquot.execution.agent.isolation.settings import ConfinementRules
from aliquot.execution.agent.job_user import JobUser

_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/sys")
_OF_RUN: Final = ("/run/systemd/resolve", "/run/resolvconf", "/run/nvidia-persistenced")
"""Parts of /run needed by name resolution and accelerators; the rest are sockets of services."""
_EMPTY: Final = ("/", "/tmp", "/var/tmp", "/run")
_NAMESPACES: Final = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--new-session", "--cap-drop", "ALL")


class OwnFolders(Struct, frozen=True, kw_only=True):
    """A kernel's own parts of the agent's folder."""

    writable: tuple[Path, ...]
    readable: tuple[Path, ...] = ()


def sandbox_arguments(
    rules: ConfinementRules,
    *,
    user: JobUser,
    own: OwnFolders,
    hidden: Sequence[Path],
    device_nodes: Sequence[str],
    environment: Mapping[str, str],
    working_directory: str,
) -> list[str]:
    """The arguments of bubblewrap without the command. Later arguments override earlier ones.

    Args:
        hidden: resolved absolute paths of folders and files to hide, except `own`.
        device_nodes: files below /dev that the kernel may use.
        environment: the job's environment; bubblewrap itself must run without it, because of LD_PRELOAD.
    """
    arguments = [*_NAMESPACES, *_system(), "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    arguments += ["--tmpfs", "/var/tmp", "--tmpfs", "/run"]
    for path in _OF_RUN:
        arguments += ["--ro-bind-try", path, path]
    for node in device_nodes:
        arguments += ["--dev-bind-try", node, node]
    if _is_home(user.home):
        arguments += ["--bind-try", user.home, user.home]
    for mount in rules.mounts:
        arguments += ["--bind-try" if mount.writable else "--ro-bind-try", str(mount.path), str(mount.path)]
    arguments += [*_covers(hidden), *_own(own)]
    for covered in (*hidden, Path("/")):
        if not covered.is_file():
            arguments += ["--remount-ro", str(covered)]
    for name, text in environment.items():
        arguments += ["--setenv", name, text]
    return [*arguments, "--chdir", working_directory]


def is_visible(path: str, *, rules: ConfinementRules, user: JobUser, own: OwnFolders, hidden: Sequence[Path]) -> bool:
    """Whether a folder of the node is visible in the sandbox; arguments as of `sandbox_arguments`."""
    place = Path(path)
    if any(place.is_relative_to(part) for part in own.writable) or path in _EMPTY:
        return True
    shown = [*_SYSTEM, *(str(mount.path) for mount in rules.mounts)]
    if _is_home(user.home):
        shown.append(user.home)
    is_shown = any(place.is_relative_to(part) for part in shown)
    return is_shown and not any(place.is_relative_to(part) for part in hidden)


def _covers(hidden: Sequence[Path]) -> Iterator[str]:
    folders = [path for path in hidden if not path.is_file()]
    for path in folders:
        yield from ("--tmpfs", str(path))
    for path in hidden:
        if path.is_file() and not any(path.is_relative_to(folder) for folder in folders):
            yield from ("--ro-bind", "/dev/null", str(path))


def _own(own: OwnFolders) -> Iterator[str]:
    for path in own.writable:
        yield from ("--bind", str(path), str(path))
    for path in own.readable:
        yield from ("--ro-bind", str(path), str(path))


def _system() -> Iterator[str]:
    for path in _SYSTEM:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)


def _is_home(home: str) -> bool:
    """Whether a home can be mounted writable: not / or a system folder, which some accounts have as their home."""
    path = Path(home)
    if not path.is_absolute() or len(path.parts) < 2 or not path.is_dir():
        return False
    return not any(path.is_relative_to(place) for place in (*_SYSTEM, "/dev", "/proc", "/run", "/tmp", "/var/tmp"))


PROGRAM: Final = "bwrap"
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
"""Fixed, not from the agent's environment: the program found runs for every job."""
_PATIENCE_S: Final = 10.0


def find_bubblewrap() -> str | None:
    """Path of bubblewrap; None if it is not installed."""
    return shutil.which(PROGRAM, path=_PATH)


def sandbox_fault(user: JobUser) -> str | None:
    """Why the sandbox does not work for an account on this host; None if it works. Blocks: runs a process."""
    program = find_bubblewrap()
    if program is None:
        return "bubblewrap is not installed (Debian, Ubuntu: apt-get install bubblewrap)"
    if user.uid == 0:
        return "jobs run as root here, and root can leave the sandbox"
    return _try(program, user)


def _try(program: str, user: JobUser) -> str | None:
    arguments = sandbox_arguments(
        ConfinementRules(),
        user=user,
        own=OwnFolders(writable=()),
        hidden=(),
        device_nodes=(),
        environment={},
        working_directory="/",
    )
    switch = {"user": user.uid, "group": user.gid, "extra_groups": list(user.groups)} if user.switches else {}
    try:
        done = subprocess.run(
            [program, *arguments, "--", "/bin/sh", "-c", "exit 42"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd="/",
            env={},
            timeout=_PATIENCE_S,
            check=False,
            **switch,  # type: ignore[call-overload] # three arguments of its own, by their names
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap cannot be tried: {error}"
    if done.returncode == 42:
        return None
    output = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
    return f"bubblewrap does not work for {user.name} here: {output[:200]}{_hint()}"


def _hint() -> str:
    """The most frequent cause: a kernel setting that disables user namespaces."""
    for path, text in (
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "kernel.apparmor_restrict_unprivileged_userns is 1"),
        ("/proc/sys/kernel/unprivileged_userns_clone", "kernel.unprivileged_userns_clone is 0"),
        ("/proc/sys/user/max_user_namespaces", "user.max_user_namespaces is 0"),
    ):
        try:
            with open(path, encoding="ascii") as file:
                number = file.read().strip()
        except OSError:
            continue
        if text.endswith(f"is {number}"):
            return f" ({text})"
    return ""
