"""Repairs: what is done about a difference that was seen twice. Devices become free by evidence alone, never here."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from aliquot.service.draft import Draft
from aliquot.service.eviction import evict
from aliquot.service.kernel_reports import stop_kernels
from aliquot.service.reaper.differences import Difference
from aliquot.service.reconcile import reconcile
from aliquot_schema.findings import Discrepancy, Finding, finding_id
from aliquot_schema.ids import AgentId, KernelId, UserId
from aliquot_schema.launching import Inventory, LaunchOrder
from aliquot_schema.leases import Kernel
from aliquot_schema.sessions import PreemptionCause
from aliquot_schema.states import KernelState, SessionState

ACTOR: Final = "system:reaper"
D: Final = Discrepancy
REPAIRS: Final = {
    D.LEASE_WITHOUT_PROCESS: "its end is taken in, its order sent again, or the agent asked to prove that it is gone",
    D.PROCESS_WITHOUT_LEASE: "the agent is asked to end it",
    D.PROCESS_AFTER_END: "the agent is asked again to end it",
    D.SPEC_WITHOUT_LEASE: "the agent is asked to close it",
    D.DEVICE_GONE: "who holds it is asked to make room, and waits again for devices that are there",
}
"""What is not here is only told."""


@dataclass(slots=True, kw_only=True)
class Sending:
    """What has to be sent to an agent once the findings are committed."""

    launch: list[LaunchOrder] = field(default_factory=list)
    stop: list[Kernel] = field(default_factory=list)
    close: list[KernelId] = field(default_factory=list)
    """Kernels that the store has no running record of."""


def repair(draft: Draft, sure: Iterable[Difference], inventory: Inventory, *, epoch: int, now_us: int) -> Sending:
    """Write what follows from differences with one agent."""
    sending = Sending()
    kernels: list[Kernel] = []
    for difference in sure:
        kernel = draft.kernel(KernelId(difference.subject))
        if difference.version is not None and (kernel is None or kernel.version != difference.version):
            continue
        if difference.kind in (D.PROCESS_WITHOUT_LEASE, D.SPEC_WITHOUT_LEASE):
            sending.close.append(KernelId(difference.subject))
        elif difference.kind is D.PROCESS_AFTER_END and kernel is not None:
            if kernel.state is KernelState.STOPPING:
                sending.stop.append(kernel)
            else:
                stop_kernels(draft, [kernel], now_us=now_us)
        elif difference.kind is D.LEASE_WITHOUT_PROCESS and kernel is not None:
            kernels.append(kernel)
        elif difference.kind is D.DEVICE_GONE:
            _move(draft, difference, now_us=now_us)
    if kernels:
        found = reconcile(draft, inventory, kernels, rebooted=False, epoch=epoch, now_us=now_us)
        sending.launch += found.launch
        sending.stop += found.stop
        _prove(draft, kernels, now_us=now_us)
    return sending


def _move(draft: Draft, difference: Difference, *, now_us: int) -> None:
    """While the orchestrator is stopped they would lose what they have, and start nowhere."""
    for session_id in () if draft.orchestration().is_stopped else difference.holders:
        session = draft.session(session_id)
        if session is not None and session.state is SessionState.RUNNING and not session.is_outside:
            cause, by_user = PreemptionCause.DEVICE, UserId(ACTOR)
            evict(draft, session, cause=cause, by_session=None, by_user=by_user, now_us=now_us)


def _prove(draft: Draft, kernels: Iterable[Kernel], *, now_us: int) -> None:
    """Of a kernel that ran and that the agent has nothing of: told to stop it, the agent looks for what is left of it,
    ends that, and closes it for good."""
    newest = [draft.kernel(kernel.id) or kernel for kernel in kernels]
    lost = [kernel for kernel in newest if kernel.state is KernelState.UNKNOWN and kernel.started_us is not None]
    stop_kernels(draft, lost, now_us=now_us)


def write_findings(
    draft: Draft, agent_id: AgentId, sure: Iterable[Difference], *, standing: Iterable[Finding], now_us: int
) -> None:
    """Open findings for what is sure and not told of yet, and close those that are seen no more."""
    seen = {difference.key: difference for difference in sure}
    known = {(finding.kind, finding.agent_id, finding.subject): finding for finding in standing}
    for key, finding in known.items():
        if key not in seen and finding.agent_id == agent_id:
            draft.put(_closed(finding, now_us=now_us), "closed")
    for key, difference in seen.items():
        if key not in known:
            draft.put(_finding(difference, now_us=now_us), "found")


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
