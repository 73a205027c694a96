"""Repairs: the action for each confirmed difference. Devices are never freed here; that takes evidence from the
agent."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from aliquot.service.agents.differences import Difference
from aliquot.service.lifecycle.agent_registration import reconcile
from aliquot.service.lifecycle.kernel_reports import stop_kernels
from aliquot.service.lifecycle.launch_orders import Orders
from aliquot.service.lifecycle.preemption import evict
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.cluster.findings import Discrepancy, Finding, finding_id
from aliquot_schema.cluster.launching import Inventory
from aliquot_schema.ids import AgentId, KernelId, UserId
from aliquot_schema.resources.leases import Kernel
from aliquot_schema.sessions import PreemptionCause
from aliquot_schema.states import KernelState, SessionState

ACTOR: Final = "system:reaper"
D: Final = Discrepancy
REPAIRS: Final = {
    D.LEASE_WITHOUT_PROCESS: "its end is recorded, its order sent again, or the agent asked to confirm that it is gone",
    D.PROCESS_WITHOUT_LEASE: "the agent is asked to end it",
    D.PROCESS_AFTER_END: "the agent is asked again to end it",
    D.SPEC_WITHOUT_LEASE: "the agent is asked to remove it",
    D.DEVICE_GONE: "its holders are preempted and queued again",
}
"""Other differences are only reported."""


@dataclass(slots=True, kw_only=True)
class RepairOrders:
    """RepairOrders to send to an agent once the findings are committed."""

    launch: Orders = field(default_factory=dict)
    stop: list[Kernel] = field(default_factory=list)
    close: list[KernelId] = field(default_factory=list)
    """Kernels without a running record in the store."""


def repair(
    draft: UnitOfWork, confirmed: Iterable[Difference], inventory: Inventory, *, epoch: int, now_us: int
) -> RepairOrders:
    """Write the consequences of confirmed differences of one agent; returns the orders to send."""
    orders = RepairOrders()
    kernels: list[Kernel] = []
    for difference in confirmed:
        kernel = draft.kernel(KernelId(difference.subject))
        if difference.version is not None and (kernel is None or kernel.version != difference.version):
            continue
        if difference.kind in (D.PROCESS_WITHOUT_LEASE, D.SPEC_WITHOUT_LEASE):
            orders.close.append(KernelId(difference.subject))
        elif difference.kind is D.PROCESS_AFTER_END and kernel is not None:
            if kernel.state is KernelState.STOPPING:
                orders.stop.append(kernel)
            else:
                stop_kernels(draft, [kernel], now_us=now_us)
        elif difference.kind is D.LEASE_WITHOUT_PROCESS and kernel is not None:
            kernels.append(kernel)
        elif difference.kind is D.DEVICE_GONE:
            _preempt_holders(draft, difference, now_us=now_us)
    if kernels:
        found = reconcile(draft, inventory, kernels, rebooted=False, epoch=epoch, now_us=now_us)
        orders.launch = found.launch
        orders.stop += found.stop
        _stop_untraced(draft, kernels, now_us=now_us)
    return orders


def _preempt_holders(draft: UnitOfWork, difference: Difference, *, now_us: int) -> None:
    """Preempt the holders of a device that is gone. Not while the scheduler is paused: they would lose their devices
    and start nowhere."""
    for session_id in () if draft.orchestration().is_stopped else difference.holders:
        session = draft.session(session_id)
        if session is not None and session.state is SessionState.RUNNING and not session.is_external_allocation:
            cause, by_user = PreemptionCause.DEVICE, UserId(ACTOR)
            evict(draft, session, cause=cause, by_session=None, by_user=by_user, now_us=now_us)


def _stop_untraced(draft: UnitOfWork, kernels: Iterable[Kernel], *, now_us: int) -> None:
    """Stop kernels that ran and that the agent has no trace of: on that order the agent searches for remains, ends
    them, and reports the end."""
    newest = [draft.kernel(kernel.id) or kernel for kernel in kernels]
    lost = [kernel for kernel in newest if kernel.state is KernelState.UNKNOWN and kernel.started_us is not None]
    stop_kernels(draft, lost, now_us=now_us)


def write_findings(
    draft: UnitOfWork, agent_id: AgentId, confirmed: Iterable[Difference], *, known: Iterable[Finding], now_us: int
) -> None:
    """Open findings for differences without one, and close findings that are no longer observed."""
    seen = {difference.key: difference for difference in confirmed}
    findings = {(finding.kind, finding.agent_id, finding.subject): finding for finding in known}
    for key, finding in findings.items():
        if key not in seen and finding.agent_id == agent_id:
            draft.put(_closed(finding, now_us=now_us), "closed")
    for key, difference in seen.items():
        before = findings.get(key)
        if before is None:
            draft.put(_finding(difference, now_us=now_us), "found")
        elif before.kind is Discrepancy.DEVICE_OVERCOMMITTED and before.evidence != difference.evidence:
            draft.put(replace(before, evidence=difference.evidence), "found")  # its holders end one by one


def _finding(difference: Difference, *, now_us: int) -> Finding:
    kind, agent_id, subject = difference.key
    return Finding(
        id=finding_id(kind, agent_id, subject, found_us=now_us),
        kind=kind,
        agent_id=agent_id,
        subject=subject,
        evidence=difference.evidence,
        repair=REPAIRS.get(kind),
        found_us=now_us,
    )


def _closed(finding: Finding, *, now_us: int) -> Finding:
    return Finding(
        id=finding.id,
        kind=finding.kind,
        agent_id=finding.agent_id,
        subject=finding.subject,
        evidence=finding.evidence,
        repair=finding.repair,
        found_us=finding.found_us,
        closed_us=now_us,
    )
