"""The request for a shim, put together from an order. Its keys are the attributes of `spawner.order.Order`."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from aliquot.execution.agent.confinement.limits import Limits
from aliquot.execution.agent.confinement.secret_folders import secret_files
from aliquot.execution.agent.job_user import JobUser
from aliquot.execution.agent.kernel_folder import KernelFolder
from aliquot.execution.devices.plugin import DeviceGate
from aliquot_schema.launching import LaunchOrder


def start_request(
    order: LaunchOrder,
    *,
    folder: KernelFolder,
    boot_id: str,
    group: str | None,
    user: JobUser,
    environment: Mapping[str, str],
    limits: Limits,
    gates: Sequence[DeviceGate],
    sandbox: tuple[str, Sequence[str]] | None,
    secrets: Path,
    pause_at: str | None,
) -> dict[str, object]:
    """Everything a shim needs; texts for the operating system become bytes here.

    Args:
        sandbox: the program that makes it, and its arguments.
        secrets: the folder for secrets that are files.
    """
    return {
        "kernel_id": str(order.kernel_id),
        "folder": str(folder.path.absolute()),
        "boot_id": boot_id,
        "argv": [os.fsencode(word) for word in order.argv],
        "environment": {os.fsencode(name): os.fsencode(text) for name, text in environment.items()},
        "working_directory": os.fsencode(order.working_directory or folder.work.absolute()),
        "user": (user.uid, user.gid, list(user.groups)) if user.switches else None,
        "limits": limits.of_process(order),
        "group": group,
        "gates": [(gate.major, gate.first, gate.last, list(gate.allowed)) for gate in gates],
        "limit_groups": limits.of_tree(order),
        "sandbox": None if sandbox is None else (os.fsencode(sandbox[0]), _ended(sandbox[1])),
        "secret_files": secret_files(order, secrets),
        "time_limit_ms": order.time_limit_ms,
        "grace_ms": order.grace_ms,
        "not_after_us": order.not_after_us,
        "pause_at": pause_at,
    }


def _ended(arguments: Sequence[str]) -> bytes:
    return b"".join(os.fsencode(argument) + b"\0" for argument in arguments)
