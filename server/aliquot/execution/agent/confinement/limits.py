"""The limits of one kernel: what was granted, what its session asks for, and what the node allows."""

import resource
from dataclasses import dataclass
from typing import Final

from aliquot.execution.agent.confinement.limit_groups import LimitGroup, LimitGroups
from aliquot.execution.agent.confinement.rules import ConfinementRules
from aliquot_schema.confinement import Enforcement
from aliquot_schema.ids import SlotName
from aliquot_schema.launching import LaunchOrder

_CPU: Final = SlotName("cpu")
_MEM: Final = SlotName("mem")

ResourceLimit = tuple[int, int, int]
"""(RLIMIT_*, soft, hard)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """An agent's way of holding kernels to limits."""

    rules: ConfinementRules
    groups: LimitGroups
    limit_memory: bool

    def enforced(self) -> Enforcement:
        """What is held by what; never pretended."""
        processes = self.groups.by("pids")
        return Enforcement(
            memory="rlimit" if self.limit_memory else "none",
            processes="rlimit" if processes == "none" else processes,
            cpu=self.groups.by("cpu") if self.rules.limit_cpu else "none",
            open_files="rlimit",
            file_size="rlimit" if self.rules.file_bytes_max else "none",
            wall_time="shim",
        )

    def of_process(self, order: LaunchOrder) -> list[ResourceLimit]:
        """What each process of a kernel is held to by itself."""
        limits = [(resource.RLIMIT_CORE, 0, 0)]
        memory = sum(order.spec.get(_MEM, {}).values())
        if self.limit_memory and memory > 0:
            # Not RLIMIT_AS: a GPU's driver reserves terabytes of addresses that it never fills.
            limits.append((resource.RLIMIT_DATA, memory, memory))
        files = order.limits.open_files or self.rules.open_files
        if files:
            limits.append(_lowered(resource.RLIMIT_NOFILE, files))
        if self.rules.file_bytes_max:
            limits.append(_lowered(resource.RLIMIT_FSIZE, self.rules.file_bytes_max))
        if order.limits.processes is not None and self.groups.by("pids") == "none":
            # It counts all processes of the account, so that it is set only for who asks for it.
            limits.append(_lowered(resource.RLIMIT_NPROC, order.limits.processes))
        return limits

    def of_tree(self, order: LaunchOrder) -> list[LimitGroup]:
        """What a kernel is held to as a whole."""
        cpus = sum(order.spec.get(_CPU, {}).values()) if self.rules.limit_cpu else 0
        processes = self.rules.processes if order.limits.processes is None else order.limits.processes
        return self.groups.wanted(order.kernel_id, processes=processes, cpus=cpus)


def _lowered(limit: int, wanted: int) -> ResourceLimit:
    """No higher than the agent's own hard limit, which only root could raise."""
    hard = resource.getrlimit(limit)[1]
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    return limit, most, most
