"""Reconciliation: when an agent joins, what it has is compared with what the store says it should have."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from aliquot.core import transitions
from aliquot.service.draft import Draft
from aliquot.service.kernel_reports import apply_report, end_kernel, stop_kernels
from aliquot.service.launch_orders import order_for
from aliquot_schema.ids import AgentId, KernelId, SessionId
from aliquot_schema.launching import Inventory, KernelPhase, KernelReport, LaunchOrder
from aliquot_schema.leases import EndEvidence, Kernel
from aliquot_schema.sessions import Session
from aliquot_schema.states import ACTIVE, KernelState

ALIVE: Final = frozenset({KernelPhase.STARTED, KernelPhase.UNCERTAIN})
NOT_CLAIMED: Final = "not_claimed"
"""The code with which an agent tells of an order that it wrote down, and that nobody has started or stopped yet."""


@dataclass(slots=True, kw_only=True)
class Repairs:
    """What has to be sent to the agent once the differences are committed."""

    launch: list[LaunchOrder] = field(default_factory=list)
    stop: list[Kernel] = field(default_factory=list)
    orphans: list[KernelId] = field(default_factory=list)
    """Kernels that the agent runs and nobody has a lease for."""
    unsent: list[SessionId] = field(default_factory=list)
    """Sessions that were granted devices here and never sent."""


def reconcile(
    draft: Draft, inventory: Inventory, kernels: Iterable[Kernel], *, rebooted: bool, epoch: int, now_us: int
) -> Repairs:
    """Compare one agent's kernels.

    Args:
        inventory: what the agent has.
        kernels: the store's kernels of this agent that have not exited.
        rebooted: whether the node was booted since those were granted; what ran then is gone.
        epoch: for orders that are sent again.
    """
    repairs = Repairs()
    reports = {report.kernel_id: report for report in inventory.kernels}
    for known in sorted(kernels, key=lambda kernel: kernel.id):
        report = reports.pop(known.id, None)
        kernel = draft.kernel(known.id) or known  # one before it may have moved it
        if report is not None and report.code != NOT_CLAIMED and kernel.state is not KernelState.GRANTED:
            repairs.stop += apply_report(draft, report, agent_id=inventory.agent.id, now_us=now_us)
        else:
            _unreported(draft, kernel, repairs, rebooted=rebooted, epoch=epoch, now_us=now_us)
    repairs.orphans = [report.kernel_id for report in reports.values() if report.phase in ALIVE]
    return repairs


def _unreported(draft: Draft, kernel: Kernel, repairs: Repairs, *, rebooted: bool, epoch: int, now_us: int) -> None:
    """The agent started nothing of this kernel. Sending the order again starts it once, whatever happened before."""
    is_unsure = kernel.state is KernelState.UNKNOWN and kernel.started_us is None
    if kernel.state is KernelState.GRANTED:
        repairs.unsent.append(kernel.session_id)
    elif kernel.state is KernelState.STARTING or is_unsure:
        session = draft.session(kernel.session_id)
        assert session is not None, f"{kernel.id} has no session"
        if _is_wanted(draft, session, kernel):
            repairs.launch.append(order_for(draft, session, kernel, epoch=epoch))
        else:
            stop_kernels(draft, [kernel], now_us=now_us)
    elif kernel.state is not KernelState.EXITED and rebooted:
        gone = KernelReport(
            kernel_id=kernel.id,
            phase=KernelPhase.EXITED,
            at_us=now_us,
            evidence=EndEvidence.BOOT_ID,
            message="the node was restarted while it ran",
        )
        end_kernel(draft, kernel, gone, now_us=now_us)
    elif kernel.state is KernelState.STOPPING:
        repairs.stop.append(kernel)
    elif kernel.state is KernelState.RUNNING:
        draft.put(transitions.move_kernel(kernel, KernelState.UNKNOWN), "unknown")


def _is_wanted(draft: Draft, session: Session, kernel: Kernel) -> bool:
    """Whether its attempt is still to run: nobody canceled it, and no rank of it has failed."""
    is_present = session.state in ACTIVE and session.attempt == kernel.attempt
    return is_present and transitions.first_failed(draft.kernels_in(session)) is None


def of_agent(kernels: Iterable[Kernel], agent_id: AgentId) -> list[Kernel]:
    """The kernels of one agent that have not exited."""
    return [kernel for kernel in kernels if kernel.agent_id == agent_id and kernel.state is not KernelState.EXITED]
