"""Kernel reports: what an agent says of a kernel, folded into the kernel, its lease and its session."""

from dataclasses import replace
from typing import Final

from aliquot.core import transitions
from aliquot.service.draft import Draft
from aliquot.service.leaving import after_leaving
from aliquot_schema.ids import AgentId, LeaseId
from aliquot_schema.launching import KernelPhase, KernelReport
from aliquot_schema.leases import EndEvidence, Kernel
from aliquot_schema.sessions import Failure, Session
from aliquot_schema.states import ACTIVE, KernelState, SessionState

UNFIT: Final = frozenset({"unsupported_resource", "unknown_slot"})
"""Refusals that the same agent would give again: it is not asked a second time."""
UNTOLD: Final = frozenset({KernelState.GRANTED, KernelState.EXITED})
"""Kernels of which no agent has anything to say, not yet or not any more."""


def apply_report(draft: Draft, report: KernelReport, *, agent_id: AgentId, now_us: int) -> list[Kernel]:
    """Write what follows from a report; returns the kernel when its agent must be told to stop it once more: nothing
    is written then. Late and repeated ones do nothing.

    Nor does one about a kernel that was never sent: the store may be older than the agent, after it was restored.
    """
    kernel = draft.kernel(report.kernel_id)
    if kernel is None or kernel.agent_id != agent_id or kernel.state in UNTOLD:
        return []
    if report.phase is KernelPhase.STARTED:
        return _started(draft, kernel, report, now_us=now_us)
    if report.phase is KernelPhase.UNCERTAIN:
        return _uncertain(draft, kernel, report)
    end_kernel(draft, kernel, report, now_us=now_us)
    return []


def end_kernel(draft: Draft, kernel: Kernel, report: KernelReport, *, now_us: int) -> None:
    """Its processes are gone: free the devices of this rank, and see what that means for the session."""
    ended = draft.put(transitions.end_kernel(kernel, report, now_us=now_us), "exited")
    lease = draft.lease(LeaseId(kernel.id))
    if lease is not None and lease.released_us is None:
        draft.release(lease, report.evidence or EndEvidence.EXIT_FILE, now_us=now_us)
    session = _active_session(draft, kernel)
    if session is None:
        return
    if report.phase is KernelPhase.REFUSED and report.code in UNFIT:
        session = _exclude(draft, session, ended.agent_id)
    _fold(draft, session, now_us=now_us)


def stop_kernels(draft: Draft, kernels: list[Kernel], *, now_us: int) -> None:
    """Move kernels towards their end; their agents are told because of the events, see `Consequences`."""
    for kernel in kernels:
        if kernel.state is KernelState.GRANTED:
            never = KernelReport(
                kernel_id=kernel.id, phase=KernelPhase.EXITED, at_us=now_us, evidence=EndEvidence.NEVER_SENT
            )
            end_kernel(draft, kernel, never, now_us=now_us)
        elif kernel.state in (KernelState.STARTING, KernelState.RUNNING, KernelState.UNKNOWN):
            draft.put(transitions.move_kernel(kernel, KernelState.STOPPING), "stopping")


def _started(draft: Draft, kernel: Kernel, report: KernelReport, *, now_us: int) -> list[Kernel]:
    if kernel.state is KernelState.STOPPING:
        return [kernel]
    if kernel.state is KernelState.RUNNING and kernel.message != report.message:
        draft.put(replace(kernel, message=report.message), "remarked")
    if kernel.state not in (KernelState.STARTING, KernelState.UNKNOWN):
        return []
    running = draft.put(transitions.start_kernel(kernel, report, now_us=now_us), "running")
    session = _active_session(draft, kernel)
    if session is not None:
        _fold(draft, session, now_us=now_us)
    else:
        stop_kernels(draft, [running], now_us=now_us)
    return []


def _uncertain(draft: Draft, kernel: Kernel, report: KernelReport) -> list[Kernel]:
    if kernel.state in (KernelState.STARTING, KernelState.RUNNING, KernelState.STOPPING):
        unknown = transitions.move_kernel(kernel, KernelState.UNKNOWN)
        draft.put(replace(unknown, message=report.message), "unknown")
    return []


def _active_session(draft: Draft, kernel: Kernel) -> Session | None:
    """The kernel's session, when this is its present attempt and it has not ended."""
    session = draft.session(kernel.session_id)
    if session is None or session.attempt != kernel.attempt or session.state not in ACTIVE:
        return None
    return session


def _exclude(draft: Draft, session: Session, agent_id: AgentId) -> Session:
    if agent_id in session.excluded_agents:
        return session
    return draft.put(replace(session, excluded_agents=(*session.excluded_agents, agent_id)), "agent_excluded")


def _fold(draft: Draft, session: Session, *, now_us: int) -> None:
    """The attempt is the fold of its ranks: all started, one failed, or all ended."""
    kernels = draft.kernels_in(session)
    left = [kernel for kernel in kernels if kernel.state is not KernelState.EXITED]
    refused = [kernel for kernel in kernels if _was_refused(draft, kernel)]
    if not left:
        _end(draft, session, kernels, refused, now_us=now_us)
    elif refused or transitions.first_failed(kernels) is not None:
        stop_kernels(draft, left, now_us=now_us)
    elif session.state is SessionState.ALLOCATING and all(kernel.state is KernelState.RUNNING for kernel in left):
        draft.put(transitions.start(session, now_us=now_us), "running")


def _was_refused(draft: Draft, kernel: Kernel) -> bool:
    lease = draft.lease(LeaseId(kernel.id))
    return lease is not None and lease.evidence is EndEvidence.REFUSED


def _end(draft: Draft, session: Session, kernels: list[Kernel], refused: list[Kernel], *, now_us: int) -> None:
    retries = draft.policy().retries
    waits = after_leaving(draft, session, kernels) if session.state is SessionState.PREEMPTING else None
    if waits is not None:
        ended = waits
    elif not refused:
        ended = transitions.finish(session, kernels, now_us=now_us, retries=retries)
    else:
        why = Failure(code="launch_refused", message=refused[0].message or f"{refused[0].agent_id} refused the launch")
        unfit = refused[0].agent_id if refused[0].agent_id in session.excluded_agents else None
        ended = transitions.requeue(session, now_us=now_us, failure=why, retries=retries, without=unfit)
    draft.put(ended, "requeued" if ended.state is SessionState.QUEUED else str(ended.state))
