"""Moves of sessions, kernels and leases, as functions from record to record.

The store gives a record its next version when it is written; nothing here touches `version`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from zlib import crc32

from aliquot_schema.agents import Agent
from aliquot_schema.ids import AgentId, UserId
from aliquot_schema.launching import KernelReport
from aliquot_schema.leases import EndEvidence, Kernel, Lease
from aliquot_schema.policies import Retries
from aliquot_schema.sessions import Failure, Session
from aliquot_schema.states import AGENT_MOVES, KERNEL_MOVES, SESSION_MOVES, AgentState, KernelState, SessionState

USUAL: Final = Retries()


def can_move(session: Session, to: SessionState) -> bool:
    """Whether the table of moves lets a session go there."""
    return to in SESSION_MOVES[session.state]


def schedule(session: Session, *, now_us: int) -> Session:
    """Give it devices: a new attempt begins."""
    moved = _session(session, SessionState.SCHEDULED)
    return replace(moved, attempt=session.attempt + 1, scheduled_us=now_us, not_before_us=None)


def send(session: Session) -> Session:
    """Its orders go to the agents."""
    return _session(session, SessionState.ALLOCATING)


def start(session: Session, *, now_us: int) -> Session:
    """Every kernel was reported started."""
    return replace(_session(session, SessionState.RUNNING), started_us=now_us)


def hold_outside(session: Session, *, now_us: int) -> Session:
    """It holds its devices, and nothing is started for it."""
    held = _session(session, SessionState.RUNNING)
    return replace(held, attempt=session.attempt + 1, scheduled_us=now_us, started_us=now_us)


def end_outside(session: Session, failure: Failure | None, *, now_us: int) -> Session:
    """It holds nothing any more: it was given back, or its time was over."""
    if failure is not None:
        return fail(session, failure, now_us=now_us)
    return replace(_session(session, SessionState.COMPLETED), ended_us=now_us)


def cancel(session: Session, *, now_us: int) -> Session:
    """A person stops it; its attempt may go on stopping."""
    return replace(_session(session, SessionState.CANCELED), ended_us=now_us, not_before_us=None, held_by=None)


def fail(session: Session, failure: Failure, *, now_us: int) -> Session:
    """End it without an exit code of its own."""
    return replace(
        _session(session, SessionState.FAILED), ended_us=now_us, failure=failure, not_before_us=None, held_by=None
    )


def hold(session: Session, by: UserId) -> Session:
    """A person holds it back."""
    return replace(_session(session, SessionState.HELD), held_by=by)


def let_go(session: Session) -> Session:
    """Nobody holds it back any more; it keeps its place."""
    return replace(_session(session, SessionState.QUEUED), held_by=None)


def requeue(
    session: Session, *, now_us: int, failure: Failure, retries: Retries = USUAL, without: AgentId | None = None
) -> Session:
    """Put it back after a failure that was ours, to be tried again later, or end it when the tries are spent.

    A refusal by an agent that cannot run it (`without`) costs no try: that agent is not asked again.
    """
    if without is not None:
        excluded = tuple(dict.fromkeys((*session.excluded_agents, without)))
        again = _session(session, SessionState.QUEUED)
        return replace(again, excluded_agents=excluded, scheduled_us=None, started_us=None)
    if session.retries >= max(session.spec.max_retries, retries.tries_min):
        return fail(session, failure, now_us=now_us)
    return _later(session, retries, now_us=now_us)


def run_again(session: Session, *, now_us: int) -> Session:
    """A person has it run once more after its end: it waits as if it came now, and may be tried as often as at first.

    The one way out of an end. None of its kernels may be left.
    """
    assert session.is_ended, f"{session.id} is {session.state}"
    return replace(
        session,
        state=SessionState.QUEUED,
        queued_us=now_us,
        retries=0,
        excluded_agents=(),
        not_before_us=None,
        scheduled_us=None,
        started_us=None,
        ended_us=None,
        exit_code=None,
        signal=None,
        failure=None,
        held_by=None,
        fallback_level=0,
        preemptions=0,
        preemption=None,
    )


def finish(session: Session, kernels: Sequence[Kernel], *, now_us: int, retries: Retries = USUAL) -> Session:
    """End it as its kernels ended, once all of them did; the first rank that failed gives the exit code.

    It is tried again instead, within its budget, when that rank was lost, or when its owner asked for that.
    """
    failed = first_failed(kernels)
    if failed is None:
        return replace(_session(session, SessionState.COMPLETED), ended_us=now_us, exit_code=0)
    if session.retries < _tries(session, failed, retries):
        return _later(session, retries, now_us=now_us)
    ended = replace(session, exit_code=failed.exit_code, signal=failed.signal)
    return fail(ended, _failure_of(failed), now_us=now_us)


def is_lost(kernel: Kernel) -> bool:
    """Whether it ended in a way that is not its own: its node was booted, its shim is gone, it was never started.

    A signal that comes with words was not seen by its shim: what was left of it was ended by its agent.
    """
    has_own_end = kernel.exit_code is not None or (kernel.signal is not None and kernel.message is None)
    return not has_own_end and not kernel.timed_out


def backoff_ms(session: Session, retries: Retries) -> int:
    """The wait before the next try: doubled from try to try, and moved by what is the same in every replay."""
    wait_ms = min(retries.wait_ms_first << min(session.retries, 40), retries.wait_ms_max)
    thousandths = crc32(f"{session.id}/{session.retries}".encode()) % 2001 - 1000
    return wait_ms + wait_ms * retries.jitter_pct * thousandths // 100_000


def first_failed(kernels: Sequence[Kernel]) -> Kernel | None:
    """The kernel that ended first with anything but exit code 0."""
    failed = [kernel for kernel in kernels if kernel.state is KernelState.EXITED and kernel.exit_code != 0]
    return min(failed, key=lambda kernel: (kernel.ended_us or 0, kernel.rank)) if failed else None


def _failure_of(kernel: Kernel) -> Failure:
    where = f"rank {kernel.rank} on {kernel.agent_id}"
    if kernel.timed_out:
        return Failure(code="time_limit", message=f"{where} was stopped at the session's time limit")
    if kernel.message is not None:
        return Failure(code="kernel_lost" if kernel.exit_code is None else "exec_failed", message=kernel.message)
    if kernel.signal is not None:
        return Failure(code="signal", message=f"{where} was ended by signal {kernel.signal}")
    if kernel.exit_code is None:
        return Failure(code="kernel_lost", message=f"{where} is gone, and left no exit code")
    return Failure(code="exit_code", message=f"{where} exited with code {kernel.exit_code}")


def move_kernel(kernel: Kernel, to: KernelState) -> Kernel:
    """Move a kernel without further news."""
    assert to in KERNEL_MOVES[kernel.state], f"{kernel.id}: {kernel.state} -> {to}"
    return replace(kernel, state=to)


def start_kernel(kernel: Kernel, report: KernelReport, *, now_us: int) -> Kernel:
    """Its agent says that it runs. The first such report tells since when; an agent's clock may be off."""
    began_us = max(kernel.granted_us, min(report.at_us, now_us)) if kernel.started_us is None else kernel.started_us
    return replace(move_kernel(kernel, KernelState.RUNNING), started_us=began_us)


def end_kernel(kernel: Kernel, report: KernelReport, *, now_us: int) -> Kernel:
    """There is evidence of its end."""
    return replace(
        move_kernel(kernel, KernelState.EXITED),
        ended_us=now_us,
        exit_code=report.exit_code,
        signal=report.signal,
        timed_out=report.timed_out,
        message=report.message,
    )


def release(lease: Lease, evidence: EndEvidence, *, now_us: int) -> Lease:
    """Give the devices back."""
    assert lease.released_us is None, f"{lease.id} was released before"
    return replace(lease, released_us=now_us, evidence=evidence)


def move_agent(agent: Agent, to: AgentState, *, now_us: int) -> Agent:
    """Change how an agent is seen; the same state again is no change."""
    if agent.state is to:
        return agent
    assert to in AGENT_MOVES[agent.state], f"{agent.id}: {agent.state} -> {to}"
    return replace(agent, state=to, state_changed_us=now_us)


def _tries(session: Session, failed: Kernel, retries: Retries) -> int:
    if is_lost(failed):
        return max(session.spec.max_retries, retries.tries_min)
    return session.spec.max_retries if session.spec.retries_own_failures else 0


def _later(session: Session, retries: Retries, *, now_us: int) -> Session:
    later_us = now_us + backoff_ms(session, retries) * 1000
    again = replace(_session(session, SessionState.QUEUED), retries=session.retries + 1, not_before_us=later_us)
    return replace(again, scheduled_us=None, started_us=None)


def _session(session: Session, to: SessionState) -> Session:
    assert can_move(session, to), f"{session.id}: {session.state} -> {to}"
    return replace(session, state=to)
