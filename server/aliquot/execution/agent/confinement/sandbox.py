"""The sandbox profile `standard`, as arguments for bubblewrap.

The job's account itself makes the sandbox, in a user namespace: nothing of it runs as root. A kernel sees

    /usr /bin /lib* /sbin /etc /opt /sys   as they are, read-only
    /tmp /var/tmp /dev/shm /run            its own, empty at first
    /dev /proc                             its own: basic devices and those granted, and its own processes
    its home, and what the operator mounts as they are
    its own folders of the agent's         and nothing else of the server's or the agent's

The network is left as it is.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aliquot.execution.agent.confinement.rules import ConfinementRules
from aliquot.execution.agent.job_user import JobUser

_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/sys")
_OF_RUN: Final = ("/run/systemd/resolve", "/run/resolvconf", "/run/nvidia-persistenced")
"""What name resolution and accelerators need of /run; the rest of it is sockets of services."""
_EMPTY: Final = ("/", "/tmp", "/var/tmp", "/run")
_NAMESPACES: Final = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--new-session", "--cap-drop", "ALL")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFolders:
    """What a kernel has of the agent's folder."""

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
    """Everything that bubblewrap is told, but for the command. Later arguments cover earlier ones.

    Args:
        hidden: absolute folders and files without links on the way, to cover but for what is `own`.
        device_nodes: files below /dev that are the kernel's.
        environment: all of the job's; bubblewrap itself must run with none of it, for LD_PRELOAD is a variable too.
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
    """Whether a folder of the node is there in the sandbox; arguments as of `sandbox_arguments`."""
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
    """Some accounts have / or a folder of the system for a home, which must not become writable for it."""
    path = Path(home)
    if not path.is_absolute() or len(path.parts) < 2 or not path.is_dir():
        return False
    return not any(path.is_relative_to(place) for place in (*_SYSTEM, "/dev", "/proc", "/run", "/tmp", "/var/tmp"))
