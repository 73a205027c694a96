"""Alert conditions: one check per rule that reads the state and yields what holds now.

Leadership and Ray are not part of the state, so `leader_checks` makes the checks of those rules for one leader term.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from aliquot.core.billing.budgets import Budgets
from aliquot.core.fairshare import month_of
from aliquot.service.alerts.message_texts import NAMED_MAX, SECOND_US, duration
from aliquot.service.alerts.rules import AlertCondition
from aliquot.service.alerts.use_conditions import gpu_idle, session_overlong, slow_twin, use_dropped
from aliquot.service.state.snapshots import take
from aliquot.service.state.state import State
from aliquot.service.views.idle_gpus import idle_behind_quotas
from aliquot_schema.alerts import AlertRule, NoticeRule
from aliquot_schema.cluster.findings import Discrepancy
from aliquot_schema.ids import AgentId, DeviceId, KeyId, SessionId, UserId
from aliquot_schema.quotas import Quota, QuotaScope, quota_holder
from aliquot_schema.resources.devices import DeviceHealth
from aliquot_schema.sessions import Session
from aliquot_schema.states import AgentState, SessionState
from aliquot_schema.views.server import RayView
from aliquot_schema.views.session_parts import session_label

WINDOW_US: Final = 3_600_000_000

FAULT_CHARS_SHOWN: Final = 300
_BROKEN: Final = frozenset({Discrepancy.DEVICE_GONE, Discrepancy.DEVICE_UNHEALTHY, Discrepancy.DEVICE_OVERCOMMITTED})


def failure_rate(state: State, *, now_us: int) -> tuple[int, int]:
    """(failed, ended) among the sessions in memory that ran here and ended within the last hour. Job arrays count by
    task."""
    since_us = now_us - WINDOW_US
    failed = ended = 0
    for session in state.sessions.values():
        if session.ended_us is None or session.ended_us < since_us or session.tasks is not None:
            continue
        if session.started_us is None or session.is_external_allocation or session.state is SessionState.CANCELED:
            continue
        ended += 1
        failed += session.state is SessionState.FAILED
    return failed, ended


Check = Callable[[State, NoticeRule, int], Iterator[AlertCondition]]
"""Takes the state, the rule and the time in microseconds UTC."""


def queue_backlog(state: State, rule: NoticeRule, _now_us: int) -> Iterator[AlertCondition]:
    """More tasks are pending than the threshold; a job array counts its pending tasks."""
    if state.tasks_pending > rule.threshold:
        yield AlertCondition(
            subject="queue", words=f"{state.tasks_pending} tasks are waiting, more than {rule.threshold}"
        )


def long_wait(state: State, rule: NoticeRule, now_us: int) -> Iterator[AlertCondition]:
    """Sessions queued for longer than the threshold, one condition per owner. Held sessions do not count."""
    since_us = now_us - rule.threshold * SECOND_US
    late: dict[UserId, list[Session]] = defaultdict(list)
    for session_id in state.pending:
        session = state.sessions[session_id]
        if session.queued_us <= since_us and session.state is SessionState.QUEUED and session.array_id is None:
            late[session.owner].append(session)
    for owner, sessions in sorted(late.items()):
        longest = min(sessions, key=lambda session: session.queued_us)
        waited = duration((now_us - longest.queued_us) // SECOND_US)
        more = "" if len(sessions) == 1 else f"; {len(sessions) - 1} more have waited too long"
        words = f"{session_label(longest)} of {owner} has waited for {waited}{more}"
        yield AlertCondition(subject=owner, words=words, owners=(owner,))


def agent_lost(state: State, _rule: NoticeRule, _now_us: int) -> Iterator[AlertCondition]:
    """Each lost agent, with the owners of sessions that may still run there."""
    running = _running(state)
    for agent in state.agents.values():
        if agent.state is not AgentState.LOST:
            continue
        sessions = running.get(agent.id, {})
        rendered = ", ".join(session_label(session) for session in list(sessions.values())[:NAMED_MAX])
        more = f" and {len(sessions) - NAMED_MAX} more" if len(sessions) > NAMED_MAX else ""
        fault = state.faults.of(agent.id)
        refused = "" if fault is None else f", and its messages are rejected ({fault[:FAULT_CHARS_SHOWN]})"
        runs = f"; its processes may still run: {rendered}{more}" if sessions else "; no session runs there"
        yield AlertCondition(
            subject=agent.id,
            words=f"agent {agent.id} on {agent.hostname} is lost{refused}{runs}",
            owners=tuple(sorted({session.owner for session in sessions.values()})),
        )


def device_unhealthy(state: State, _rule: NoticeRule, _now_us: int) -> Iterator[AlertCondition]:
    """Devices that agents report as unhealthy, held devices that are gone or have less than is held, and devices that
    agents of two nodes report. A device that is leaving was taken out of the configuration on purpose."""
    found: dict[str, str] = {}
    for agent in state.agents.values():
        for device in agent.devices if agent.state is not AgentState.LEFT else ():
            if device.health not in (DeviceHealth.HEALTHY, DeviceHealth.LEAVING):
                found[f"{agent.id}/{device.id}"] = f"device {device.name} of agent {agent.id} is {device.health}"
    for finding in state.findings.values():
        if finding.kind in _BROKEN:
            found.setdefault(
                f"{finding.agent_id}/{finding.subject}",
                f"device {finding.subject} of agent {finding.agent_id}: {finding.evidence}",
            )
    found |= {f"{agent_id}/claims": "; ".join(words[:NAMED_MAX]) for agent_id, words in state.faults.claims.items()}
    for subject, words in sorted(found.items()):
        yield AlertCondition(subject=subject, words=words)


def external_process(state: State, _rule: NoticeRule, _now_us: int) -> Iterator[AlertCondition]:
    """Processes that Aliquot did not start, as the reaper confirmed them, and the users of their Unix accounts."""
    for finding in state.findings.values():
        agent = state.agents.get(finding.agent_id)
        if finding.kind is not Discrepancy.EXTERNAL_PROCESS or agent is None:
            continue
        device_id = DeviceId(finding.subject)
        accounts = state.foreign_usage.users.get(agent.node_id, {}).get(device_id, ())
        owners = {owner for account in accounts for owner in state.people.owners_of(account)}
        is_blocked = device_id in state.foreign_usage.blocked.get(agent.node_id, {})
        effect = "The device takes nothing new meanwhile. " if is_blocked else ""
        words = (
            f"{finding.evidence} that Aliquot did not start on device {finding.subject} of agent {finding.agent_id}. "
            f"{effect}Submit such work as a session, or hold the device by an external allocation"
        )
        yield AlertCondition(subject=f"{finding.agent_id}/{finding.subject}", words=words, owners=tuple(sorted(owners)))


def high_failure_rate(state: State, rule: NoticeRule, now_us: int) -> Iterator[AlertCondition]:
    """More sessions failed within the last hour than the threshold in percent. Canceled sessions do not count."""
    failed, ended = failure_rate(state, now_us=now_us)
    if ended >= max(rule.floor, 1) and failed * 100 > rule.threshold * ended:
        words = f"{failed} of {ended} sessions that ended in the last hour have failed, more than {rule.threshold} %"
        yield AlertCondition(subject="sessions", words=words)


def disk_low(state: State, _rule: NoticeRule, _now_us: int) -> Iterator[AlertCondition]:
    """Nearly full disks of the server and of agents."""
    if state.disk_space.server is not None:
        yield AlertCondition(subject="server", words=f"on the server, {state.disk_space.server}")
    for agent_id, shortage in sorted(state.disk_space.agents.items()):
        yield AlertCondition(subject=agent_id, words=f"on agent {agent_id}, {shortage}")


def results_not_copied(state: State, _rule: NoticeRule, _now_us: int) -> Iterator[AlertCondition]:
    """Agents that cannot copy results to `results-folder`."""
    for agent_id, fault in sorted(state.readings.copy_faults.items()):
        yield AlertCondition(subject=agent_id, words=f"on agent {agent_id}, {fault}")


def clock_corrected(state: State, rule: NoticeRule, now_us: int) -> Iterator[AlertCondition]:
    """A correction of the clock within the last seconds of the threshold."""
    correction = state.clock_correction
    if correction is not None and 0 <= now_us - correction.to_us < rule.threshold * SECOND_US:
        yield AlertCondition(subject=f"correction {correction.version}", words=correction.words())


def gpus_idle_behind_quotas(state: State, rule: NoticeRule, _now_us: int) -> Iterator[AlertCondition]:
    """More GPUs than the threshold are free, and waiting sessions would fit on them without their quotas."""
    idle = idle_behind_quotas(state)
    if idle is not None and idle.gpus_free > rule.threshold:
        yield AlertCondition(subject="quotas", words=idle.message)


def budget_spent(state: State, rule: NoticeRule, now_us: int) -> Iterator[AlertCondition]:
    """Budgets of the month that are spent beyond the threshold in percent, each with those it concerns."""
    limited = [quota for quota in state.quotas.values() if quota.budget]
    if not limited or not state.policy.prices.rates:
        return
    prices = state.policy.prices
    budgets, month = Budgets(take(state), prices=prices, now_us=now_us), month_of(now_us)
    for quota in sorted(limited, key=lambda one: one.id):
        spent, budget = budgets.spent(quota.id), quota.budget or 0
        if spent * 100 >= rule.threshold * budget:
            words = (
                f"{quota_holder(quota.id)} has spent {prices.text(spent)} of a budget of {prices.text(budget)} "
                f"({spent * 100 // budget} %) this month"
            )
            holders = tuple(sorted(_holders(state, quota)))
            yield AlertCondition(subject=f"{quota.id} {month // 100}-{month % 100:02}", words=words, owners=holders)


def _holders(state: State, quota: Quota) -> set[UserId]:
    """Users whom a budget concerns: the user, the owner of the key, or those who used the project and its members."""
    if quota.scope is QuotaScope.USER:
        return {UserId(quota.name)}
    if quota.scope is QuotaScope.KEY:
        key = state.people.keys.get(KeyId(quota.name))
        return set() if key is None else {key.user}
    if quota.scope is QuotaScope.CLUSTER:
        return set()
    members = {user.id for user in state.people.users.values() if quota.name in user.projects}
    return members | {account.user for account in state.accounts.values() if account.project == quota.name}


CHECKS: Final[Mapping[AlertRule, Check]] = {
    AlertRule.QUEUE_BACKLOG: queue_backlog,
    AlertRule.LONG_WAIT: long_wait,
    AlertRule.AGENT_LOST: agent_lost,
    AlertRule.DEVICE_UNHEALTHY: device_unhealthy,
    AlertRule.EXTERNAL_PROCESS: external_process,
    AlertRule.FAILURE_RATE: high_failure_rate,
    AlertRule.DISK_LOW: disk_low,
    AlertRule.RESULTS_NOT_COPIED: results_not_copied,
    AlertRule.CLOCK_CORRECTED: clock_corrected,
    AlertRule.IDLE_BEHIND_QUOTAS: gpus_idle_behind_quotas,
    AlertRule.GPU_IDLE: gpu_idle,
    AlertRule.BUDGET_SPENT: budget_spent,
    AlertRule.SESSION_OVERLONG: session_overlong,
    AlertRule.USE_DROPPED: use_dropped,
    AlertRule.SLOW_TWIN: slow_twin,
}
"""Rules that are checked on the state; see `leader_checks` for the others."""


def _running(state: State) -> dict[AgentId, dict[SessionId, Session]]:
    """Sessions with unfinished kernels, ended ones too, by agent; empty when no agent is lost."""
    found: dict[AgentId, dict[SessionId, Session]] = defaultdict(dict)
    if not any(agent.state is AgentState.LOST for agent in state.agents.values()):
        return found
    for kernel in state.live_kernels.by_id.values():
        session = state.sessions.get(kernel.session_id)
        if session is not None:
            found[kernel.agent_id][session.id] = session
    return found


def leader_checks(
    epoch: int, *, began_us: int, address: str, is_shared: bool, ray: Callable[[], RayView] | None = None
) -> Mapping[AlertRule, Check]:
    """Checks of a leader term. `NO_LEADER` never holds, so alerts that followers opened are closed.

    Args:
        ray: the state of Ray; None without Ray.
    """

    def changed(_state: State, rule: NoticeRule, now_us: int) -> Iterator[AlertCondition]:
        since_us = now_us - began_us
        if is_shared and epoch > 1 and since_us < rule.threshold * SECOND_US:
            words = f"{address or 'another server'} leads, in epoch {epoch}"
            yield AlertCondition(subject=f"epoch {epoch}", words=words)

    def never(_state: State, _rule: NoticeRule, _now_us: int) -> Iterator[AlertCondition]:
        yield from ()

    def apart(_state: State, _rule: NoticeRule, _now_us: int) -> Iterator[AlertCondition]:
        status = None if ray is None else ray()
        if status is not None and not status.connected:
            why = f": {status.reason}" if status.reason else ""
            words = f"Ray at {status.head_node} is not connected{why}; sessions that run continue, new ones wait"
            yield AlertCondition(subject=status.head_node, words=words)

    return {AlertRule.LEADER_CHANGED: changed, AlertRule.NO_LEADER: never, AlertRule.RAY_DISCONNECTED: apart}
