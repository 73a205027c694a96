"""Conditions: what holds now of what rules look for."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from aliquot.service.notices.failures import failure_rate
from aliquot.service.notices.terms import SECOND_US, duration, named
from aliquot.service.state import State
from aliquot_schema.devices import DeviceHealth
from aliquot_schema.findings import Discrepancy
from aliquot_schema.ids import AgentId, SessionId, UserId
from aliquot_schema.notices import AlertRule, NoticeRule
from aliquot_schema.sessions import Session
from aliquot_schema.states import ACTIVE, AgentState, KernelState, SessionState

NAMED_MAX: Final = 5
"""Sessions that are named in one sentence."""
_BROKEN: Final = frozenset({Discrepancy.DEVICE_GONE, Discrepancy.DEVICE_UNHEALTHY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Something that holds now, in words."""

    subject: str
    words: str
    owners: tuple[UserId, ...] = field(default=())


Look = Callable[[State, NoticeRule, int], Iterator[Condition]]
"""By the state, the rule and the time in microseconds UTC."""


def queue_backlog(state: State, rule: NoticeRule, _now_us: int) -> Iterator[Condition]:
    """Tasks that wait; a job array counts those of it that do."""
    if state.tasks_pending > rule.threshold:
        yield Condition(subject="queue", words=f"{state.tasks_pending} tasks wait, more than {rule.threshold}")


def long_wait(state: State, rule: NoticeRule, now_us: int) -> Iterator[Condition]:
    """By owner; of sessions that the allocator looks at."""
    since_us = now_us - rule.threshold * SECOND_US
    late: dict[UserId, list[Session]] = defaultdict(list)
    for session_id in state.pending:
        session = state.sessions[session_id]
        if session.queued_us <= since_us and session.state is SessionState.QUEUED and session.array_id is None:
            late[session.owner].append(session)
    for owner, sessions in sorted(late.items()):
        longest = min(sessions, key=lambda session: session.queued_us)
        waited = duration((now_us - longest.queued_us) // SECOND_US)
        many = "" if len(sessions) == 1 else f"; so have {len(sessions) - 1} more"
        words = f"{named(longest)} of {owner} has waited for {waited}{many}"
        yield Condition(subject=owner, words=words, owners=(owner,))


def agent_lost(state: State, _rule: NoticeRule, _now_us: int) -> Iterator[Condition]:
    """Each that is silent for long, with the owners of what may run there."""
    running = _running(state)
    for agent in state.agents.values():
        if agent.state is not AgentState.LOST:
            continue
        sessions = running.get(agent.id, {})
        shown = ", ".join(named(session) for session in list(sessions.values())[:NAMED_MAX])
        more = f" and {len(sessions) - NAMED_MAX} more" if len(sessions) > NAMED_MAX else ""
        runs = f"; its processes may go on: {shown}{more}" if sessions else "; nothing of ours runs there"
        yield Condition(
            subject=agent.id,
            words=f"agent {agent.id} on {agent.hostname} is lost{runs}",
            owners=tuple(sorted({session.owner for session in sessions.values()})),
        )


def device_unhealthy(state: State, _rule: NoticeRule, _now_us: int) -> Iterator[Condition]:
    """As agents report it; of a device that is gone, as long as somebody holds it."""
    found: dict[str, str] = {}
    for agent in state.agents.values():
        for device in agent.devices if agent.state is not AgentState.LEFT else ():
            if device.health is not DeviceHealth.HEALTHY:
                found[f"{agent.id}/{device.id}"] = f"device {device.name} of agent {agent.id} is {device.health}"
    for finding in state.findings.values():
        if finding.kind in _BROKEN:
            found.setdefault(
                f"{finding.agent_id}/{finding.subject}",
                f"device {finding.subject} of agent {finding.agent_id}: {finding.evidence}",
            )
    for subject, words in sorted(found.items()):
        yield Condition(subject=subject, words=words)


def external_process(state: State, _rule: NoticeRule, _now_us: int) -> Iterator[Condition]:
    """As the reaper found it, twice."""
    for finding in state.findings.values():
        if finding.kind is Discrepancy.EXTERNAL_PROCESS:
            words = f"{finding.evidence} of others on device {finding.subject} of agent {finding.agent_id}"
            yield Condition(subject=f"{finding.agent_id}/{finding.subject}", words=words)


def ends_badly(state: State, rule: NoticeRule, now_us: int) -> Iterator[Condition]:
    """Of sessions that ran, within the last hour; those that people canceled do not count."""
    failed, ended = failure_rate(state, now_us=now_us)
    if ended >= max(rule.floor, 1) and failed * 100 > rule.threshold * ended:
        words = f"{failed} of {ended} sessions that ended within an hour have failed, more than {rule.threshold} %"
        yield Condition(subject="sessions", words=words)


def disk_low(state: State, _rule: NoticeRule, _now_us: int) -> Iterator[Condition]:
    """The server's own disk, and agents'."""
    if state.space.server is not None:
        yield Condition(subject="server", words=f"the server's disk: {state.space.server}")
    for agent_id, shortage in sorted(state.space.agents.items()):
        yield Condition(subject=agent_id, words=f"the disk of agent {agent_id}: {shortage}")


LOOKS: Final[Mapping[AlertRule, Look]] = {
    AlertRule.QUEUE_BACKLOG: queue_backlog,
    AlertRule.LONG_WAIT: long_wait,
    AlertRule.AGENT_LOST: agent_lost,
    AlertRule.DEVICE_UNHEALTHY: device_unhealthy,
    AlertRule.EXTERNAL_PROCESS: external_process,
    AlertRule.FAILURE_RATE: ends_badly,
    AlertRule.DISK_LOW: disk_low,
}
"""Who leads is nothing that the state knows of."""


def _running(state: State) -> dict[AgentId, dict[SessionId, Session]]:
    """Sessions with processes that may live on agents that are lost, by agent."""
    found: dict[AgentId, dict[SessionId, Session]] = defaultdict(dict)
    if not any(agent.state is AgentState.LOST for agent in state.agents.values()):
        return found
    for kernel in state.kernels.values():
        session = state.sessions.get(kernel.session_id)
        if kernel.state is not KernelState.EXITED and session is not None and session.state in ACTIVE:
            found[kernel.agent_id][session.id] = session
    return found
