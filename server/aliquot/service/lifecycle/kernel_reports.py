"""Kernel reports: applies agents' reports to kernels, their leases and their sessions.

A report is applied at most once: late and repeated ones change nothing. A preempted session is queued again after its
last kernel has exited, unless it ended by itself.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from aliquot.core import transitions
from aliquot.core.fairshare import rate_milli
from aliquot.core.saved_work import AttemptLoss, after_loss, began, loss, saved, saved_since_preempted
from aliquot.core.transitions import ended_by_itself, requeue_preempted, unstopped
from aliquot.service.lifecycle.idle_sessions import idle_failure
from aliquot.service.lifecycle.image_pulls import (
    PULL_AGAIN,
    PULL_FINAL,
    after_failed_pull,
    note_failed_pull,
    note_pull,
)
from aliquot.service.lifecycle.preflights import after_failure, failed_in, note_check, note_failure
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.cluster.launching import NO_ACCOUNT, NO_WORKSPACE, WORKSPACE_UNREADABLE, KernelPhase, KernelReport
from aliquot_schema.ids import AgentId, KernelId, LeaseId, UserId
from aliquot_schema.resources.leases import EndEvidence, Kernel
from aliquot_schema.sessions import PREFLIGHT_FAILED, Failure, PreemptionCause, PreemptionReceipt, Session
from aliquot_schema.states import ACTIVE, KernelState, SessionState


def after_leaving(draft: UnitOfWork, session: Session, kernels: Sequence[Kernel]) -> Session | None:
    """A preempted session, queued again, once all its kernels have exited; None when it ended by itself."""
    if ended_by_itself(session, kernels):
        return None
    lost = _loss(draft, session, kernels)
    return replace(requeue_preempted(session, lost=lost.lost), work=after_loss(session, lost))


def _loss(draft: UnitOfWork, session: Session, kernels: Sequence[Kernel], *, is_own_fault: bool = False) -> AttemptLoss:
    """What an attempt loses that will be run again; its kernels have all exited."""
    held_ms = max((((kernel.ended_us or 0) - kernel.granted_us) // 1000 for kernel in kernels), default=0)
    grace_ms = draft.policy().preemption.grace_ms
    used = _used(draft, kernels)
    return loss(session, used=used, ran_ms=max(held_ms, 0), grace_ms=grace_ms, is_own_fault=is_own_fault)


def _used(draft: UnitOfWork, kernels: Sequence[Kernel]) -> int:
    """Use of an attempt: milli-devices x milliseconds, by the policy's charges."""
    ended = [(kernel, kernel.ended_us) for kernel in kernels if kernel.ended_us is not None]
    return sum(_rate(draft, [kernel]) * ((ended_us - kernel.granted_us) // 1000) for kernel, ended_us in ended)


def _rate(draft: UnitOfWork, kernels: Iterable[Kernel]) -> int:
    """Price of what kernels hold or held, in milli of a device, by the policy's charges."""
    charges, rate = draft.policy().charges, 0
    for kernel in kernels:
        lease, agent = draft.lease(LeaseId(kernel.id)), draft.agent(kernel.agent_id)
        if lease is not None and agent is not None:
            devices = {device.id: device for device in agent.devices}
            rate += rate_milli(lease.spec, devices=devices, charges=charges)
    return rate


UNFIT: Final = frozenset({"unsupported_resource", "unknown_slot"})
"""Codes of permanent refusals: the agent is excluded from further attempts of the session."""
FINAL: Final = frozenset({NO_ACCOUNT, NO_WORKSPACE})
"""Codes of refusals that no agent and no retry would change: the session fails."""
UNTOLD: Final = frozenset({KernelState.GRANTED, KernelState.EXITED})
"""States in which reports are ignored: the kernel has not been sent yet, or has exited."""


def apply_report(draft: UnitOfWork, report: KernelReport, *, agent_id: AgentId, now_us: int) -> list[Kernel]:
    """Apply a report; returns the kernel, with nothing written, when its stop must be sent to the agent again.

    Reports on kernels that were never sent are ignored: a restored store may be older than the agent.
    """
    kernel = draft.kernel(report.kernel_id)
    if kernel is None or kernel.agent_id != agent_id or kernel.state in UNTOLD:
        return []
    _note_work(draft, kernel, report, now_us=now_us)
    session = None if report.pull is None else _active_session(draft, kernel)
    if session is not None and report.pull is not None:
        note_pull(draft, session, kernel, report.pull, now_us=now_us)
    if report.phase is KernelPhase.PULLING:
        return [kernel] if kernel.state is KernelState.STOPPING else []
    if report.phase in (KernelPhase.CHECKING, KernelPhase.CHECKED):
        return note_check(draft, kernel, report, now_us=now_us)
    if report.phase is KernelPhase.STARTED:
        return _started(draft, kernel, report, now_us=now_us)
    if report.phase is KernelPhase.UNCERTAIN:
        return _uncertain(draft, kernel, report)
    end_kernel(draft, kernel, report, now_us=now_us)
    return []


def _note_work(draft: UnitOfWork, kernel: Kernel, report: KernelReport, *, now_us: int) -> None:
    """Record from which checkpoint rank 0 started, and which it has acknowledged.

    A preempted session that has saved its work since it was asked to leave is stopped without waiting for its grace.
    """
    session = _active_session(draft, kernel) if kernel.rank == 0 else None
    if session is None:
        return
    attempt, work = kernel.attempt, session.work
    if report.resumed_ms is not None:
        milli = _rate(draft, draft.kernels_in(session))
        work = began(
            work, attempt=attempt, resumed_ms=report.resumed_ms, note=report.resume_note, milli=milli, now_us=now_us
        )
    if work != session.work:
        what = "resumed" if work is None or work.kept_ms else "started_over"
        session = draft.put_work(replace(session, work=work), what)
    if report.saved_ms is not None:
        work = saved(work, attempt=attempt, saved_ms=report.saved_ms, agent_id=kernel.agent_id, now_us=now_us)
    if work != session.work:
        session = draft.put(replace(session, work=work), "checkpointed")
        if session.state is SessionState.PREEMPTING and saved_since_preempted(session):
            stop_kernels(draft, unstopped(draft.kernels_in(session)), now_us=now_us)


def end_kernel(draft: UnitOfWork, kernel: Kernel, report: KernelReport, *, now_us: int) -> None:
    """Record the end of a kernel: release its lease and update its session."""
    ended = draft.put(transitions.end_kernel(kernel, report, now_us=now_us), "exited")
    lease = draft.lease(LeaseId(kernel.id))
    if lease is not None and lease.released_us is None:
        draft.release(lease, report.evidence or EndEvidence.EXIT_FILE, now_us=now_us)
    session = _active_session(draft, kernel)
    if session is None:
        return
    if report.phase is KernelPhase.REFUSED and report.code in FINAL:
        session = _refused_for_good(draft, session, report)
    elif report.phase is KernelPhase.REFUSED and report.code == PREFLIGHT_FAILED:
        session = note_failure(draft, session, ended, now_us=now_us)
    elif report.phase is KernelPhase.REFUSED and report.code in PULL_FINAL | PULL_AGAIN:
        session = note_failed_pull(draft, session, ended, report)
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


def give_up_start(draft: UnitOfWork, kernel_id: KernelId, why: str, *, now_us: int) -> None:
    """End the start of a session whose files the server cannot read: it waits without its devices, and then tries
    again."""
    kernel = draft.kernel(kernel_id)
    session = None if kernel is None else _active_session(draft, kernel)
    if session is None or session.failure is not None or session.state is not SessionState.ALLOCATING:
        return
    failure = Failure(code=WORKSPACE_UNREADABLE, message=f"the server cannot read its files: {why}")
    draft.put(replace(session, failure=failure), "launch_refused")
    stop_kernels(draft, unstopped(draft.kernels_in(session)), now_us=now_us)


def _started(draft: UnitOfWork, kernel: Kernel, report: KernelReport, *, now_us: int) -> list[Kernel]:
    if kernel.state is KernelState.STOPPING:
        return [kernel]
    said = kernel.message, bool(kernel.takes_limit)
    if kernel.state is KernelState.RUNNING and said != (report.message, report.takes_limit):
        draft.put(replace(kernel, message=report.message, takes_limit=report.takes_limit), "remarked")
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
    message = report.message or "the launch was refused"
    if report.code == NO_ACCOUNT:
        message += f"; an admin sets the account of {session.owner} with `aliquot user set {session.owner} "
        message += "--unix NAME`, or creates it on every node"
    failure = Failure(code=report.code or NO_ACCOUNT, message=message)
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
    waits = None if refused else _after_fault(draft, session, kernels, now_us=now_us)
    if waits is None and session.state is SessionState.PREEMPTING:
        waits = after_leaving(draft, session, kernels)
    if waits is not None:
        idle = idle_failure(draft, session)
        ended = waits if idle is None else transitions.fail(session, idle, now_us=now_us)
    elif session.failure is not None and session.failure.code in FINAL:
        ended = transitions.fail(session, session.failure, now_us=now_us)
    elif session.failure is not None and session.failure.code in PULL_FINAL | PULL_AGAIN:
        ended = after_failed_pull(draft, session, now_us=now_us)
    elif failed_in(session):
        ended = after_failure(draft, session, now_us=now_us)
    elif not refused:
        ended = transitions.finish(session, kernels, now_us=now_us, retries=retries)
    else:
        why = Failure(code="launch_refused", message=refused[0].message or f"{refused[0].agent_id} refused the launch")
        unfit = refused[0].agent_id if refused[0].agent_id in session.excluded_agents else None
        ended = transitions.requeue(session, now_us=now_us, failure=why, retries=retries, without=unfit)
    if ended.state is not SessionState.QUEUED:
        draft.put(ended, str(ended.state))
        return
    if waits is None and session.started_us is not None:
        failed = transitions.first_failed(kernels)
        own = failed is not None and not transitions.is_lost(failed)
        ended = replace(ended, work=after_loss(session, _loss(draft, session, kernels, is_own_fault=own)))
    draft.put_work(ended, "requeued")


HARDWARE: Final = "hardware"
"""Code of the failure of a session that may not run again after a hardware fault."""
BY_FAULT: Final = UserId("system:hardware")


def _after_fault(draft: UnitOfWork, session: Session, kernels: Sequence[Kernel], *, now_us: int) -> Session | None:
    """A session whose processes a hardware fault has ended; None if none has.

    It is queued again without using a retry if it is preemptible or has a retry left; else it fails.
    """
    fault, failed = _fault_of(draft, kernels), transitions.first_failed(kernels)
    if fault is None or failed is None or failed.timed_out or session.failure is not None:
        return None
    failure = Failure(code=HARDWARE, message=fault)
    if not (session.spec.preemptible or session.retries < session.spec.max_retries):
        return transitions.fail(session, failure, now_us=now_us)
    if session.state not in (SessionState.RUNNING, SessionState.PREEMPTING):
        return transitions.requeue(session, now_us=now_us, failure=failure)
    if session.state is SessionState.RUNNING:
        cause = PreemptionCause.DEVICE
        receipt = PreemptionReceipt(cause=cause, by_session=None, by_user=BY_FAULT, at_us=now_us, until_us=now_us)
        session = transitions.preempt(session, receipt)
    lost = _loss(draft, session, kernels)
    return replace(requeue_preempted(session, lost=lost.lost), work=after_loss(session, lost))


def _fault_of(draft: UnitOfWork, kernels: Sequence[Kernel]) -> str | None:
    """The hardware fault of a device that these kernels held, in words; None without one."""
    for kernel in kernels:
        agent, lease = draft.agent(kernel.agent_id), draft.lease(LeaseId(kernel.id))
        if agent is None or lease is None:
            continue
        held = {device_id for amounts in lease.spec.values() for device_id in amounts}
        for device_id, fault in sorted(agent.faults.items()):
            if device_id in held:
                return f"hardware fault of {device_id} on {agent.id}: {fault}"
    return None
