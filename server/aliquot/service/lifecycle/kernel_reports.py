"""Kernel reports: applies agents' reports to kernels, their leases and their sessions.

A report is applied at most once: late and repeated ones change nothing. A preempted session is queued again after its
last kernel has exited, unless it ended by itself.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from aliquot.core import transitions
from aliquot.core.fairshare import rate_milli
from aliquot.core.transitions import ended_by_itself, made_room
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.cluster.launching import NO_ACCOUNT, KernelPhase, KernelReport
from aliquot_schema.ids import AgentId, LeaseId
from aliquot_schema.resources.leases import EndEvidence, Kernel
from aliquot_schema.sessions import Failure, Session
from aliquot_schema.states import ACTIVE, KernelState, SessionState


def after_leaving(draft: UnitOfWork, session: Session, kernels: Sequence[Kernel]) -> Session | None:
    """A preempted session, queued again, once all its kernels have exited; None when it ended by itself."""
    if ended_by_itself(session, kernels):
        return None
    return made_room(session, lost=_used(draft, kernels))


def _used(draft: UnitOfWork, kernels: Sequence[Kernel]) -> int:
    """Use of an attempt: milli-devices x milliseconds, by the policy's charges."""
    charges = draft.policy().charges
    used = 0
    for kernel in kernels:
        lease, agent = draft.lease(LeaseId(kernel.id)), draft.agent(kernel.agent_id)
        if lease is not None and agent is not None and kernel.ended_us is not None:
            devices = {device.id: device for device in agent.devices}
            held_ms = (kernel.ended_us - kernel.granted_us) // 1000
            used += rate_milli(lease.spec, devices=devices, charges=charges) * held_ms
    return used


UNFIT: Final = frozenset({"unsupported_resource", "unknown_slot"})
"""Codes of permanent refusals: the agent is excluded from further attempts of the session."""
UNTOLD: Final = frozenset({KernelState.GRANTED, KernelState.EXITED})
"""States in which reports are ignored: the kernel has not been sent yet, or has exited."""


def apply_report(draft: UnitOfWork, report: KernelReport, *, agent_id: AgentId, now_us: int) -> list[Kernel]:
    """Apply a report; returns the kernel, with nothing written, when its stop must be sent to the agent again.

    Reports on kernels that were never sent are ignored: a restored store may be older than the agent.
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


def end_kernel(draft: UnitOfWork, kernel: Kernel, report: KernelReport, *, now_us: int) -> None:
    """Record the end of a kernel: release its lease and update its session."""
    ended = draft.put(transitions.end_kernel(kernel, report, now_us=now_us), "exited")
    lease = draft.lease(LeaseId(kernel.id))
    if lease is not None and lease.released_us is None:
        draft.release(lease, report.evidence or EndEvidence.EXIT_FILE, now_us=now_us)
    session = _active_session(draft, kernel)
    if session is None:
        return
    if report.phase is KernelPhase.REFUSED and report.code == NO_ACCOUNT:
        session = _refused_for_good(draft, session, report)
    elif report.phase is KernelPhase.REFUSED and report.code in UNFIT:
        session = _exclude(draft, session, ended.agent_id)
    _update_session(draft, session, now_us=now_us)


def stop_kernels(draft: UnitOfWork, kernels: list[Kernel], *, now_us: int) -> None:
    """Move kernels towards their end; `EventEffects` sends the stops to their agents."""
    for kernel in kernels:
        if kernel.state is KernelState.GRANTED:
            never = KernelReport(
                kernel_id=kernel.id, phase=KernelPhase.EXITED, at_us=now_us, evidence=EndEvidence.NEVER_SENT
            )
            end_kernel(draft, kernel, never, now_us=now_us)
        elif kernel.state in (KernelState.STARTING, KernelState.RUNNING, KernelState.UNKNOWN):
            draft.put(transitions.move_kernel(kernel, KernelState.STOPPING), "stopping")


def _started(draft: UnitOfWork, kernel: Kernel, report: KernelReport, *, now_us: int) -> list[Kernel]:
    if kernel.state is KernelState.STOPPING:
        return [kernel]
    if kernel.state is KernelState.RUNNING and kernel.message != report.message:
        draft.put(replace(kernel, message=report.message), "remarked")
    if kernel.state not in (KernelState.STARTING, KernelState.UNKNOWN):
        return []
    running = draft.put(transitions.start_kernel(kernel, report, now_us=now_us), "running")
    session = _active_session(draft, kernel)
    if session is not None:
        _update_session(draft, session, now_us=now_us)
    else:
        stop_kernels(draft, [running], now_us=now_us)
    return []


def _uncertain(draft: UnitOfWork, kernel: Kernel, report: KernelReport) -> list[Kernel]:
    if kernel.state in (KernelState.STARTING, KernelState.RUNNING, KernelState.STOPPING):
        unknown = transitions.move_kernel(kernel, KernelState.UNKNOWN)
        draft.put(replace(unknown, message=report.message), "unknown")
    return []


def _active_session(draft: UnitOfWork, kernel: Kernel) -> Session | None:
    """The kernel's session, if it is active and the kernel belongs to its present attempt."""
    session = draft.session(kernel.session_id)
    if session is None or session.attempt != kernel.attempt or session.state not in ACTIVE:
        return None
    return session


def _exclude(draft: UnitOfWork, session: Session, agent_id: AgentId) -> Session:
    if agent_id in session.excluded_agents:
        return session
    return draft.put(replace(session, excluded_agents=(*session.excluded_agents, agent_id)), "agent_excluded")


def _refused_for_good(draft: UnitOfWork, session: Session, report: KernelReport) -> Session:
    """Note the failure of a session that no retry could start; it ends with it once all its kernels have exited."""
    if session.failure is not None or session.state is SessionState.PREEMPTING:
        return session
    message = f"{report.message}; an admin sets the account of {session.owner} with `aliquot user set {session.owner} "
    failure = Failure(code=NO_ACCOUNT, message=f"{message}--unix NAME`, or creates it on every node")
    return draft.put(replace(session, failure=failure), "launch_refused")


def _update_session(draft: UnitOfWork, session: Session, *, now_us: int) -> None:
    """Update the session from all ranks: running once all run, stopped once one failed, ended once all exited."""
    kernels = draft.kernels_in(session)
    left = [kernel for kernel in kernels if kernel.state is not KernelState.EXITED]
    refused = [kernel for kernel in kernels if _was_refused(draft, kernel)]
    if not left:
        _end(draft, session, kernels, refused, now_us=now_us)
    elif refused or transitions.first_failed(kernels) is not None:
        stop_kernels(draft, left, now_us=now_us)
    elif session.state is SessionState.ALLOCATING and all(kernel.state is KernelState.RUNNING for kernel in left):
        draft.put(transitions.start(session, now_us=now_us), "running")


def _was_refused(draft: UnitOfWork, kernel: Kernel) -> bool:
    lease = draft.lease(LeaseId(kernel.id))
    return lease is not None and lease.evidence is EndEvidence.REFUSED


def _end(draft: UnitOfWork, session: Session, kernels: list[Kernel], refused: list[Kernel], *, now_us: int) -> None:
    retries = draft.policy().retries
    waits = after_leaving(draft, session, kernels) if session.state is SessionState.PREEMPTING else None
    if waits is not None:
        ended = waits
    elif session.failure is not None and session.failure.code == NO_ACCOUNT:
        ended = transitions.fail(session, session.failure, now_us=now_us)
    elif not refused:
        ended = transitions.finish(session, kernels, now_us=now_us, retries=retries)
    else:
        why = Failure(code="launch_refused", message=refused[0].message or f"{refused[0].agent_id} refused the launch")
        unfit = refused[0].agent_id if refused[0].agent_id in session.excluded_agents else None
        ended = transitions.requeue(session, now_us=now_us, failure=why, retries=retries, without=unfit)
    draft.put(ended, "requeued" if ended.state is SessionState.QUEUED else str(ended.state))
