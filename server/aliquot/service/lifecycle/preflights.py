"""Preflights: gangs that start once all ranks have passed their check, and sessions queued again without a failed node.

A failed check ends the attempt and uses no retry. Its agent is excluded from further attempts of the session. After
`PREFLIGHT_REPLACEMENTS_MAX` of them, or when no other agent could run it, the session fails.
"""

from collections import defaultdict
from collections.abc import Iterable

from msgspec.structs import replace

from aliquot.core import transitions
from aliquot.service.lifecycle.launch_orders import Orders, attempt_of
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.cluster.launching import KernelPhase, KernelReport, LaunchOrder
from aliquot_schema.ids import AgentId, kernel_parts
from aliquot_schema.resources.leases import Kernel
from aliquot_schema.sessions import (
    PREFLIGHT_FAILED,
    PREFLIGHT_REPLACEMENTS_MAX,
    Failure,
    PreflightFailures,
    Session,
)
from aliquot_schema.states import KernelState, SessionState


def note_check(draft: UnitOfWork, kernel: Kernel, report: KernelReport, *, now_us: int) -> list[Kernel]:
    """Record that a kernel has passed its check; returns it, with nothing written, when it should be stopping."""
    if kernel.state is KernelState.STOPPING:
        return [kernel]
    is_new = report.phase is KernelPhase.CHECKED and kernel.checked_us is None
    if is_new and kernel.state in (KernelState.STARTING, KernelState.UNKNOWN):
        draft.put(replace(kernel, checked_us=now_us), "checked")
    return []


def releases(state: State, reports: Iterable[KernelReport], *, epoch: int) -> Orders:
    """The orders that let the ranks of gangs start, of those that these reports are about: all have passed.

    The reports have been applied. Orders are idempotent, and repeated for a rank that reports again that it waits.
    """
    found: dict[AgentId, list[LaunchOrder]] = defaultdict(list)
    started = (report.kernel_id for report in reports if report.phase in (KernelPhase.CHECKED, KernelPhase.STARTED))
    for session_id in dict.fromkeys(kernel_parts(kernel_id)[0] for kernel_id in started):
        session = state.sessions.get(session_id)
        if session is None or session.spec.preflight is None or session.state is not SessionState.ALLOCATING:
            continue
        attempt = attempt_of(UnitOfWork(state), session)
        if len(attempt.kernels) > 1 and all(kernel.has_passed for kernel in attempt.kernels):
            for kernel in attempt.kernels:
                if kernel.state is not KernelState.RUNNING:
                    found[kernel.agent_id].append(attempt.order(kernel, epoch=epoch))
    return found


def note_failure(draft: UnitOfWork, session: Session, kernel: Kernel, *, now_us: int) -> Session:
    """Exclude the agent of a kernel whose check has failed; the first of an attempt is recorded."""
    excluded = tuple(dict.fromkeys((*session.excluded_agents, kernel.agent_id)))
    known = session.preflight
    if known is None or known.attempt != session.attempt:
        known = PreflightFailures(
            failures=1 if known is None else known.failures + 1,
            attempt=session.attempt,
            agent_id=kernel.agent_id,
            message=f"rank {kernel.rank}: {kernel.message}",
            at_us=now_us,
        )
    return draft.put(replace(session, excluded_agents=excluded, preflight=known), "preflight_failed")


def failed_in(session: Session) -> bool:
    """Whether a preflight ended the present attempt."""
    return session.preflight is not None and session.preflight.attempt == session.attempt


def after_failure(draft: UnitOfWork, session: Session, *, now_us: int) -> Session:
    """The session once all kernels of an attempt have exited that a preflight ended: queued, or failed."""
    known = session.preflight
    assert known is not None, f"{session.id} has no failed preflight"
    why = f"the preflight failed on {known.agent_id}: {known.message}"
    if known.failures > PREFLIGHT_REPLACEMENTS_MAX:
        text = f"{why}; it has failed in {known.failures} attempts, on {', '.join(session.excluded_agents)}"
        return transitions.fail(session, Failure(code=PREFLIGHT_FAILED, message=text), now_us=now_us)
    failure = Failure(code=PREFLIGHT_FAILED, message=f"{why}; no other node could run it")
    if not draft.is_possible_on_others(session):
        return transitions.fail(session, failure, now_us=now_us)
    return transitions.requeue(session, now_us=now_us, failure=failure, without=known.agent_id)
