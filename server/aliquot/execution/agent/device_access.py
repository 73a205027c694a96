"""Whether this host lets an agent keep its kernels from device files that are not theirs."""

import os

from aliquot.execution.agent.cgroups import Groups
from aliquot.execution.agent.spawner.device_gate import close_devices


def can_gate(groups: Groups | None) -> bool:
    """Find out by trying, on a group that holds nobody."""
    if groups is None:
        return False
    probe = groups.of_kernel(f"gate-{os.getpid()}")
    try:
        os.mkdir(probe)
        try:
            close_devices(probe, [])
        finally:
            os.rmdir(probe)
    except OSError:
        return False
    return True
