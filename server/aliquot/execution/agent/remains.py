"""What is left of a kernel whose shim was killed: found by its cgroup and by the mark in the environment, and ended."""

import os
import signal
import time
from typing import Final

from aliquot.execution.agent.cgroups import kill_group, members, remove_group
from aliquot.execution.agent.environment import MARK

_LOOK_AGAIN_S: Final = 0.05
"""A process shows no environment for a moment while it executes a program."""


def end_remains(kernel_id: str, *, group: str | None, patience_s: float) -> bool:
    """Kill what is left and see it gone; False when something is still there after the patience. Blocks."""
    deadline = time.monotonic() + patience_s
    clean = 0
    while clean < 2:
        if group is not None:
            kill_group(group)
        left = [pid for pid in find_remains(kernel_id, group=group) if not _kill(pid, kernel_id)]
        clean = 0 if left else clean + 1
        if time.monotonic() > deadline and left:
            return False
        time.sleep(_LOOK_AGAIN_S)
    if group is not None:
        remove_group(group)
    return True


def find_remains(kernel_id: str, *, group: str | None) -> set[int]:
    """The living processes of a kernel. Of other users' processes only root sees the environment."""
    marked = {int(name) for name in os.listdir("/proc") if name.isdecimal() and _is_marked(int(name), kernel_id)}
    return marked | set(members(group) if group is not None else ())


def _kill(pid: int, kernel_id: str) -> bool:
    """Kill a process if it still is the kernel's; whether it was gone already."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if _is_marked(pid, kernel_id):
            signal.pidfd_send_signal(process, signal.SIGKILL)
            return False
    except ProcessLookupError:
        return True
    finally:
        os.close(process)
    return False


def _is_marked(pid: int, kernel_id: str) -> bool:
    """A process that has ended and was not waited for shows no environment, and so counts as gone."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as environment:
            return f"{MARK}={kernel_id}".encode() in environment.read().split(b"\0")
    except OSError:
        return False
