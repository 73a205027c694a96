"""Shim client: finds the shims of kernels, and stops or signals a kernel through its shim. Blocks on disk I/O.

Shims are addressed by pidfd, so a signal cannot reach another process that reuses the pid.
"""

import os
import select
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from aliquot.execution.agent.agent_folder import KernelFolder
from aliquot.execution.agent.json_files import FORMAT, replace_file
from aliquot.execution.agent.kernel_state import KernelObservation, KernelStatus, observe
from aliquot.execution.agent.kernels import KernelHandle
from aliquot.execution.agent.spawner.descendants import start_time
from aliquot_schema.errors import Unavailable

FORWARD_FROM = 33
"""Same value as in `spawner.shim`: signal 33 + n is forwarded to the job as n."""

ENDING_MS_MAX: Final = 1000
"""A process that is killed releases its locks before it has ended."""


def check_original(path: Path, kernels: Iterable[KernelHandle], *, boot_id: str) -> None:
    """Check that the folder of an agent is no copy: there the lock of a kernel that runs is free, and the kernel would
    be taken for one whose shim was killed.

    Raises:
        Unavailable: it is a copy, and a kernel in it still runs.
    """
    for kernel in kernels:
        try:
            seen = observe(kernel.folder, boot_id=boot_id, ordered_boot_id=kernel.ordered_boot_id)
        except (OSError, ValueError):
            continue
        if seen.status is KernelStatus.DEAD and seen.claim is not None and _runs(seen.claim):
            raise Unavailable(
                f"the folder {path} is a copy, and kernel {kernel.kernel_id} still runs with the original; start the "
                "agent with the original folder, or with this one when its jobs have ended"
            )


def _runs(claim: dict[str, Any]) -> bool:
    shim = open_process(claim["pid"], claim["start_time"])
    if shim is None:
        return False
    try:
        poll = select.poll()
        poll.register(shim, select.POLLIN)
        return not poll.poll(ENDING_MS_MAX)
    finally:
        os.close(shim)


def open_process(pid: int, began: int) -> int | None:
    """Pidfd of the process with this pid and start time (clock ticks since boot); None if it has ended."""
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
    """Write the stop request and wake the shim; False if it is gone. On a full disk the order's grace period counts."""
    with suppress(OSError):
        replace_file(folder.request, {"format": FORMAT, "what": "stop", "grace_ms": grace_ms})
    return _send(claim, signal.SIGTERM)


def ask_to_forward(claim: dict[str, Any], *, number: int) -> bool:
    """Send a signal (1..31) to the job's main process; False if the shim is gone."""
    return _send(claim, FORWARD_FROM + number)


def ask_to_limit(folder: KernelFolder, claim: dict[str, Any], *, time_limit_ms: int) -> bool:
    """Write a time limit, in milliseconds since the start, and wake the shim; False if it is gone."""
    replace_file(folder.limit, {"format": FORMAT, "time_limit_ms": time_limit_ms})
    return _send(claim, signal.SIGUSR2)


def wake(claim: dict[str, Any]) -> bool:
    """Make the shim read its files again; False if it is gone."""
    return _send(claim, signal.SIGUSR2)


def ask_for_terminals(claim: dict[str, Any]) -> bool:
    """Make the shim start the program for terminals; False if it is gone."""
    return _send(claim, signal.SIGUSR1)


def _send(claim: dict[str, Any], number: int) -> bool:
    shim = open_process(claim["pid"], claim["start_time"])
    if shim is None:
        return False
    try:
        signal.pidfd_send_signal(shim, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(shim)
    return True


def stop_or_close(kernel: KernelHandle, *, boot_id: str, grace_ms: int, drafts: Path) -> bool:
    """Claim a kernel that has not started, so that it never starts; else ask its shim to stop it.

    Returns:
        Whether a shim was asked.
    Raises:
        OSError: the claim cannot be written, and no shim runs.
    """
    unwritten = None
    try:
        if kernel.folder.close_to_starts({"by": "stop"}, drafts=drafts):
            return False
    except OSError as error:
        unwritten = error
    observation = _observe(kernel, boot_id)
    if observation.status is not KernelStatus.ALIVE or observation.claim is None:
        if unwritten is not None:
            raise unwritten
        return False
    return ask_to_stop(kernel.folder, observation.claim, grace_ms=grace_ms)


def stop_with_message(kernel: KernelHandle, message: str, *, boot_id: str, grace_ms: int) -> None:
    """Stop a running kernel, and append the reason to its output if the disk takes it."""
    observation = _observe(kernel, boot_id)
    if observation.status is not KernelStatus.ALIVE or observation.claim is None:
        return
    with suppress(OSError):
        file = os.open(kernel.folder.output, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
        with open(file, "a", encoding="utf-8") as output:
            output.write(f"\naliquot: stopped because it {message}\n")
    ask_to_stop(kernel.folder, observation.claim, grace_ms=grace_ms)


def forward(kernel: KernelHandle, *, boot_id: str, number: int) -> bool:
    """Forward a signal to the job; False if it is not running."""
    observation = _observe(kernel, boot_id)
    if observation.status is not KernelStatus.ALIVE or observation.claim is None or not observation.has_pid:
        return False
    return ask_to_forward(observation.claim, number=number)


def set_limit(kernel: KernelHandle, *, boot_id: str, time_limit_ms: int, agent_id: str) -> bool:
    """Change the time limit of a kernel; False if it is not running, or its shim cannot change it.

    Raises:
        Unavailable: the disk cannot be written.
    """
    observation = _observe(kernel, boot_id)
    if observation.status is not KernelStatus.ALIVE or observation.claim is None or not observation.takes_limit:
        return False
    try:
        return ask_to_limit(kernel.folder, observation.claim, time_limit_ms=time_limit_ms)
    except OSError as error:
        raise Unavailable(f"agent {agent_id} cannot write to its disk: {error}") from error


def _observe(kernel: KernelHandle, boot_id: str) -> KernelObservation:
    return observe(kernel.folder, boot_id=boot_id, ordered_boot_id=kernel.ordered_boot_id)
