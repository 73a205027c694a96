"""A kernel as the agent has it in memory; the truth is in its folder."""

import asyncio
from dataclasses import dataclass, field

from aliquot.execution.agent.kernel_folder import KernelFolder
from aliquot_schema.devices import ResourceSpec
from aliquot_schema.ids import KernelId, SessionId, kernel_parts
from aliquot_schema.launching import KernelPhase, KernelReport, LaunchOrder


@dataclass(slots=True, eq=False)
class HeldKernel:
    """What is known of one kernel, and what waits for it."""

    folder: KernelFolder
    order: LaunchOrder | None = None
    ordered_boot_id: str | None = None
    group: str | None = None
    report: KernelReport | None = None
    """The last that was told."""
    request: dict[str, object] | None = None
    """For the spawner; None unless this agent, since its start, was asked to start the kernel."""
    prepared: asyncio.Event = field(default_factory=asyncio.Event)
    """Its folder is written, or it turned out that it need not be; until then nobody else may act on it."""
    shim: int | None = None
    """A pidfd, while it is watched."""
    shim_pid: int | None = None
    seen_at: float = 0.0
    """When the shim was first watched, seconds of the monotonic clock."""
    alarm: asyncio.TimerHandle | None = field(default=None, repr=False)
    ending: bool = False
    """What its killed shim left behind is being ended."""

    @property
    def kernel_id(self) -> KernelId:
        return self.folder.kernel_id

    @property
    def session_id(self) -> SessionId:
        return kernel_parts(self.kernel_id)[0]

    @property
    def attempt(self) -> int:
        return kernel_parts(self.kernel_id)[1]

    @property
    def spec(self) -> ResourceSpec:
        return {} if self.order is None else self.order.spec

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.report is not None and self.report.phase in (KernelPhase.EXITED, KernelPhase.REFUSED)
