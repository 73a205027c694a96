"""Moves of sessions, kernels and leases, as functions from record to record.

The store gives a record its next version when it is written; nothing here touches `version`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from aliquot_schema.agents import Agent
from aliquot_schema.ids import AgentId
from aliquot_schema.launching import KernelReport
from aliquot_schema.leases import EndEvidence, Kernel, Lease
from aliquot_schema.sessions import Failure, Session
from aliquot_schema.states import AGENT_MOVES, KERNEL_MOVES, SESSION_MOVES, AgentState, KernelState, SessionState

BACKOFF_MS_FIRST: Final = 1_000
BACKOFF_MS_MAX: Final = 300_000
LAUNCH_TRIES_MIN: Final = 3
"""Launches that fail for reasons of ours are tried this often even when the user asked for no retries."""


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


def cancel(session: Session, *, now_us: int) -> Session:
    """A person stops it; its attempt may go on stopping."""
    return replace(_session(session, SessionState.CANCELED), ended_us=now_us, not_before_us=None)


def fail(session: Session, failure: Failure, *, now_us: int) -> Session:
    """End it without an exit code of its own."""
    return replace(_session(session, SessionState.FAILED), ended_us=now_us, failure=failure, not_before_us=None)


def requeue(session: Session, *, now_us: int, failure: Failure, without: AgentId | None = None) -> Session:
    """Put it back after a launch that failed, to be tried again later, or end it when the tries are spent.

    A refusal by an agent that cannot run it (`without`) costs no try: that agent is not asked again.
    """
    if without is not None:
        excluded = tuple(dict.fromkeys((*session.excluded_agents, without)))
        again = _session(session, SessionState.QUEUED)
        return replace(again, excluded_agents=excluded, scheduled_us=None, started_us=None)
    if session.retries >= max(session.spec.max_retries, LAUNCH_TRIES_MIN):
        return fail(session, failure, now_us=now_us)
    wait_ms = min(BACKOFF_MS_FIRST * 2**session.retries, BACKOFF_MS_MAX)
    again = _session(session, SessionState.QUEUED)
    later_us = now_us + wait_ms * 1000
    return replace(again, retries=session.retries + 1, not_before_us=later_us, scheduled_us=None, started_us=None)


def finish(session: Session, kernels: Sequence[Kernel], *, now_us: int) -> Session:
    """End it as its kernels ended, once all of them did; the first rank that failed gives the exit code."""
    failed = first_failed(kernels)
    if failed is None:
        return replace(_session(session, SessionState.COMPLETED), ended_us=now_us, exit_code=0)
    ended = replace(session, exit_code=failed.exit_code, signal=failed.signal)
    return fail(ended, _failure_of(failed), now_us=now_us)


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


def _session(session: Session, to: SessionState) -> Session:
    assert can_move(session, to), f"{session.id}: {session.state} -> {to}"
    return replace(session, state=to)
