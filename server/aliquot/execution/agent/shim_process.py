"""A running shim, seen from the agent: a pidfd, so that what is asked never reaches another process."""

import os
import signal
from typing import Any

from aliquot.execution.agent.json_files import FORMAT, replace_file
from aliquot.execution.agent.kernel_folder import KernelFolder
from aliquot.execution.agent.spawner.descendants import start_time

FORWARD_FROM = 33
"""As in the shim: signal 33 + n is passed on to the job as n."""


def open_shim(claim: dict[str, Any]) -> int | None:
    """A pidfd of the shim that made this claim; None when it has ended."""
    return open_process(claim["pid"], claim["start_time"])


def open_process(pid: int, began: int) -> int | None:
    """A pidfd of a process, by its number and its start time (clock ticks); None when it has ended."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    try:
        if start_time(pid) == began:
            return process
    except (FileNotFoundError, ProcessLookupError):
        pass
    os.close(process)
    return None


def ask_to_stop(folder: KernelFolder, claim: dict[str, Any], *, grace_ms: int) -> bool:
    """Write the request down and wake the shim; False when it is gone."""
    replace_file(folder.request, {"format": FORMAT, "what": "stop", "grace_ms": grace_ms})
    return _send(claim, signal.SIGTERM)


def ask_to_forward(claim: dict[str, Any], *, number: int) -> bool:
    """Have a signal (1..31) sent to the job's main process; False when the shim is gone."""
    return _send(claim, FORWARD_FROM + number)


def _send(claim: dict[str, Any], number: int) -> bool:
    shim = open_shim(claim)
    if shim is None:
        return False
    try:
        signal.pidfd_send_signal(shim, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(shim)
    return True
