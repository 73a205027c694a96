"""Host uses: CPU time and host memory of running kernels as last measured, in memory only.

The leader gets them from the agents, a follower from the leader. The last measurement of a kernel becomes part of its
record when it ends.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from aliquot_schema.cluster.launching import KernelPhase, KernelReport
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.resources.leases import HostUse, Kernel
from aliquot_schema.states import KernelState


class HostUsage:
    """The newest measurement of each running kernel, with the peaks of earlier ones."""

    def __init__(self, kernels: Mapping[KernelId, Kernel]) -> None:
        """
        Args:
            kernels: all kernels in memory.
        """
        self._kernels = kernels
        self._uses: dict[KernelId, HostUse] = {}

    def of(self, kernel: Kernel) -> HostUse | None:
        """What a kernel's processes have used; None = not measured."""
        return kernel.host_use if kernel.state is KernelState.EXITED else self._uses.get(kernel.id)

    def take(self, agent_id: AgentId, uses: Mapping[KernelId, HostUse]) -> None:
        """Store measurements of an agent. Kernels that are not its own are ignored."""
        for kernel_id, use in uses.items():
            kernel = self._kernels.get(kernel_id)
            if kernel is not None and kernel.agent_id == agent_id and kernel.state is not KernelState.EXITED:
                self._uses[kernel_id] = use.with_peaks(self._uses.get(kernel_id))

    def completed(self, report: KernelReport) -> KernelReport:
        """The report, with the peaks known here if it is about an end."""
        if report.phase is not KernelPhase.EXITED:
            return report
        known = self._uses.get(report.kernel_id)
        use = known if report.host_use is None else report.host_use.with_peaks(known)
        return replace(report, host_use=use)

    def running(self) -> Mapping[KernelId, HostUse]:
        """The measurements of all kernels that run; those of others are removed."""
        self._uses = {kernel_id: use for kernel_id, use in self._uses.items() if self._runs(kernel_id)}
        return self._uses

    def replace(self, uses: Mapping[KernelId, HostUse]) -> None:
        """Replace all measurements by those of the leader."""
        self._uses = dict(uses)

    def _runs(self, kernel_id: KernelId) -> bool:
        kernel = self._kernels.get(kernel_id)
        return kernel is not None and kernel.state is not KernelState.EXITED
