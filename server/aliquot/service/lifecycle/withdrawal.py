"""Withdrawal: preempts sessions whose node is about to be taken away, or is drained with eviction, or one of whose
devices has a hardware fault.

Sessions leave a node with an eviction notice immediately. A node that leaves at a known time is left early enough for
the grace periods of preemptible sessions. Others, which started because their time limit ends before, stay until then.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from aliquot.service.lifecycle.preemption import evict
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.ids import DeviceId, SessionId, UserId
from aliquot_schema.sessions import PreemptionCause, Session
from aliquot_schema.states import SessionState

ACTOR: Final = "system:withdrawal"
STAYING: Final = frozenset({SessionState.SCHEDULED, SessionState.ALLOCATING, SessionState.RUNNING})
STARTING_US: Final = 1_000_000
"""A session that is only starting is checked again after this time; it cannot save anything yet."""


FAULT_GRACE_MS: Final = 5_000
"""Longest grace after a hardware fault: a session on a broken device can hardly save anything."""


class Withdrawal(NamedTuple):
    """A session that has to leave its node."""

    due_us: int
    """When it is preempted, microseconds UTC."""
    session_id: SessionId
    cause: PreemptionCause
    by_user: UserId = UserId(ACTOR)


def withdrawals(state: State, *, now_us: int) -> list[Withdrawal]:
    """The sessions that have to leave, and when; those that are leaving already are not among them.

    While the scheduler is stopped, sessions stay on faulty devices: they would start nowhere else.
    """
    found: dict[SessionId, Withdrawal] = {}
    for agent_id in state.registry.withdrawn:
        agent = state.agents[agent_id]
        faulty = frozenset() if state.orchestration.is_stopped else frozenset(agent.faults)
        for session, devices in _sessions_on(state, agent):
            one = _withdrawal(state, session, agent, has_fault=not faulty.isdisjoint(devices), now_us=now_us)
            if one is not None and (session.id not in found or one < found[session.id]):
                found[session.id] = one
    return sorted(found.values())


def withdraw(draft: UnitOfWork, one: Withdrawal, *, now_us: int) -> None:
    """Preempt a session that has to leave; it is queued again without using a retry."""
    session = draft.session(one.session_id)
    if session is None or session.state is not SessionState.RUNNING:
        return
    grace_ms = draft.policy().preemption.grace_ms if session.spec.grace_ms is None else session.spec.grace_ms
    if one.cause is PreemptionCause.DEVICE:
        grace_ms = min(grace_ms, FAULT_GRACE_MS)
    evict(
        draft,
        session,
        cause=one.cause,
        by_session=None,
        by_user=one.by_user,
        now_us=now_us,
        grace_ms=grace_ms,
    )


def _sessions_on(state: State, agent: Agent) -> Iterator[tuple[Session, frozenset[DeviceId]]]:
    """Sessions whose present attempt holds devices of an agent and that are not leaving, with these devices."""
    held: dict[SessionId, set[DeviceId]] = {}
    for lease in state.leases_on(agent.node_id):
        kernel = None if lease.kernel_id is None else state.kernels.get(lease.kernel_id)
        session = None if kernel is None else state.sessions.get(kernel.session_id)
        if kernel is None or session is None or lease.agent_id != agent.id:
            continue
        if session.attempt == kernel.attempt and session.state in STAYING:
            held.setdefault(session.id, set()).update(*lease.spec.values())
    for session_id, devices in held.items():
        yield state.sessions[session_id], frozenset(devices)


def _withdrawal(state: State, session: Session, agent: Agent, *, has_fault: bool, now_us: int) -> Withdrawal | None:
    """When a session leaves an agent; None if it may stay."""
    starting_us = 0 if session.state is SessionState.RUNNING else now_us + STARTING_US
    if has_fault:
        return Withdrawal(max(now_us, starting_us), session.id, PreemptionCause.DEVICE)
    if agent.eviction is not None:
        return Withdrawal(max(now_us, starting_us), session.id, PreemptionCause.EVICTION)
    if agent.evicted_by is not None:
        return Withdrawal(max(now_us, starting_us), session.id, PreemptionCause.DRAIN, agent.evicted_by)
    if agent.until_us is None:
        return None
    grace_ms = state.policy.preemption.grace_ms if session.spec.grace_ms is None else session.spec.grace_ms
    if not session.spec.preemptible and session.spec.time_limit_ms is not None:
        grace_ms = 0  # its time limit ends before; it is left alone until then
    return Withdrawal(max(agent.until_us - grace_ms * 1000, starting_us), session.id, PreemptionCause.EVICTION)
