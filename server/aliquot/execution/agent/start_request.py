"""The request for a shim, put together from an order. Its keys are the attributes of `spawner.order.Order`."""

import os
import resource
from collections.abc import Mapping, Sequence

from aliquot.execution.agent.job_user import JobUser
from aliquot.execution.agent.kernel_folder import KernelFolder
from aliquot.execution.devices.plugin import DeviceGate
from aliquot_schema.ids import SlotName
from aliquot_schema.launching import LaunchOrder


def start_request(
    order: LaunchOrder,
    *,
    folder: KernelFolder,
    boot_id: str,
    group: str | None,
    user: JobUser,
    environment: Mapping[str, str],
    limit_memory: bool,
    gates: Sequence[DeviceGate],
    pause_at: str | None,
) -> dict[str, object]:
    """Everything a shim needs; texts for the operating system become bytes here."""
    return {
        "kernel_id": str(order.kernel_id),
        "folder": str(folder.path.absolute()),
        "boot_id": boot_id,
        "argv": [os.fsencode(word) for word in order.argv],
        "environment": {os.fsencode(name): os.fsencode(text) for name, text in environment.items()},
        "working_directory": os.fsencode(order.working_directory or folder.work.absolute()),
        "user": (user.uid, user.gid, list(user.groups)) if user.switches else None,
        "limits": _limits(order, limit_memory=limit_memory),
        "group": group,
        "gates": [(gate.major, gate.first, gate.last, list(gate.allowed)) for gate in gates],
        "time_limit_ms": order.time_limit_ms,
        "grace_ms": order.grace_ms,
        "not_after_us": order.not_after_us,
        "pause_at": pause_at,
    }


def _limits(order: LaunchOrder, *, limit_memory: bool) -> list[tuple[int, int, int]]:
    limits = [(resource.RLIMIT_CORE, 0, 0)]
    memory = sum(order.spec.get(SlotName("mem"), {}).values())
    if limit_memory and memory > 0:
        # Not RLIMIT_AS: a GPU's driver reserves terabytes of addresses that it never fills.
        limits.append((resource.RLIMIT_DATA, memory, memory))
    return limits
