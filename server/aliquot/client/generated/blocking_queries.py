"""All queries, blocking.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from collections.abc import Sequence
from datetime import datetime

from aliquot.client.blocking_calls import BlockingCalls
from aliquot.client.generated.accounts import ApiKey, Me, User
from aliquot.client.generated.agents import Agent
from aliquot.client.generated.alerts import NoticePreferences, NoticeReceiver, NoticeRule
from aliquot.client.generated.audit import AuditFilterInput, DeviceHolding
from aliquot.client.generated.cluster import Cluster, ClusterPool, IdleBehindQuotas, Project, QueueStatistics
from aliquot.client.generated.enums import AgentOrder, AlertState, SessionOrder, UsageBy
from aliquot.client.generated.history import History, UsageHistory
from aliquot.client.generated.inputs import AgentFilter, CreateSessionInput
from aliquot.client.generated.operations import Examination, Orchestrator
from aliquot.client.generated.pages import (
    AgentConnection,
    AlertUncountedConnection,
    AuditChangeUncountedConnection,
    DeliveryUncountedConnection,
    LedgerPassUncountedConnection,
    QueueEntryConnection,
    SessionConnection,
    SessionStepUncountedConnection,
)
from aliquot.client.generated.policy import Policy, Quota, Usage
from aliquot.client.generated.previews import SessionPreview
from aliquot.client.generated.queries import Queries
from aliquot.client.generated.secrets import Secret
from aliquot.client.generated.sessions import Session, SessionFilter, SessionLog


class BlockingQueries(BlockingCalls):
    """All queries of the server, blocking."""

    _client: Queries

    def me(self) -> Me:
        """The authenticated caller."""
        return self._run(self._client.me())

    def users(self) -> tuple[User, ...]:
        """All users. For operators."""
        return self._run(self._client.users())

    def api_keys(self, *, user: str | None = None) -> tuple[ApiKey, ...]:
        """API keys, oldest first: the caller's own; for admins, all."""
        return self._run(self._client.api_keys(user=user))

    def policy(self) -> Policy:
        """The scheduling policy."""
        return self._run(self._client.policy())

    def quotas(self) -> tuple[Quota, ...]:
        """All quotas."""
        return self._run(self._client.quotas())

    def usage(self, *, user: str | None = None, project: str | None = None) -> tuple[Usage, ...]:
        """Usage by project and user."""
        return self._run(self._client.usage(user=user, project=project))

    def audit(
        self, *, filter: AuditFilterInput | None = None, first: int = 20, after: str | None = None
    ) -> AuditChangeUncountedConnection:
        """The audit log: who changed what, newest first. For operators."""
        return self._run(self._client.audit(filter=filter, first=first, after=after))

    def held_by(self, device_id: str, *, at: datetime) -> tuple[DeviceHolding, ...]:
        """Holders of a device at a given time, in order of their grants. For operators."""
        return self._run(self._client.held_by(device_id, at=at))

    def ledger_passes(self, *, first: int = 20, after: str | None = None) -> LedgerPassUncountedConnection:
        """Recorded scheduling passes, newest first; `aliquot replay PASS` repeats one. For operators."""
        return self._run(self._client.ledger_passes(first=first, after=after))

    def cluster(self) -> Cluster:
        """The cluster: hosts, GPUs and capacity."""
        return self._run(self._client.cluster())

    def pools(self, *, name: str | None = None) -> tuple[ClusterPool, ...]:
        """The policy's pools with their agents, capacity and load."""
        return self._run(self._client.pools(name=name))

    def projects(self, *, name: str | None = None) -> tuple[Project, ...]:
        """Projects with their users, usage and quotas."""
        return self._run(self._client.projects(name=name))

    def doctor(self) -> Examination:
        """Inspect all agents now and report discrepancies. For operators."""
        return self._run(self._client.doctor())

    def device_history(
        self,
        agent_id: str,
        *,
        device_ids: Sequence[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        points: int = 300,
    ) -> History:
        """Measurements of an agent's accelerators over time."""
        return self._run(
            self._client.device_history(agent_id, device_ids=device_ids, since=since, until=until, points=points)
        )

    def queue_history(
        self, *, since: datetime | None = None, until: datetime | None = None, points: int = 300
    ) -> History:
        """Length of the queue and number of held GPUs over time."""
        return self._run(self._client.queue_history(since=since, until=until, points=points))

    def session_history(self, id: str, *, points: int = 300) -> History:
        """
        Measurements of a session's devices while it held them. For its owner, members of its project and operators.
        """
        return self._run(self._client.session_history(id, points=points))

    def usage_history(
        self,
        *,
        by: UsageBy = UsageBy.USER,
        since: datetime | None = None,
        until: datetime | None = None,
        step: float | None = None,
    ) -> UsageHistory:
        """GPU usage by user or project over time, from the audit log."""
        return self._run(self._client.usage_history(by=by, since=since, until=until, step=step))

    def alerts(
        self, *, state: AlertState | None = AlertState.OPEN, first: int = 20, after: str | None = None
    ) -> AlertUncountedConnection:
        """Alerts, newest first."""
        return self._run(self._client.alerts(state=state, first=first, after=after))

    def notice_rules(self) -> tuple[NoticeRule, ...]:
        """All alert rules. For operators."""
        return self._run(self._client.notice_rules())

    def notice_receivers(self) -> tuple[NoticeReceiver, ...]:
        """All receivers of notices. For admins."""
        return self._run(self._client.notice_receivers())

    def deliveries(
        self, *, notice_id: str | None = None, first: int = 20, after: str | None = None
    ) -> DeliveryUncountedConnection:
        """Deliveries of notices, newest first. For admins."""
        return self._run(self._client.deliveries(notice_id=notice_id, first=first, after=after))

    def notice_preferences(self) -> NoticePreferences:
        """The caller's notice preferences."""
        return self._run(self._client.notice_preferences())

    def orchestrator(self) -> Orchestrator:
        """State of the servers: which one leads, and whether sessions are placed."""
        return self._run(self._client.orchestrator())

    def preview_session(self, input: CreateSessionInput) -> SessionPreview:
        """Preview the scheduling of a session without submitting it."""
        return self._run(self._client.preview_session(input))

    def secrets(self) -> tuple[Secret, ...]:
        """The caller's secrets by name, without their values."""
        return self._run(self._client.secrets())

    def session_log(
        self, id: str, *, rank: int = 0, attempt: int | None = None, offset: int = 0, bytes_max: int = 65536
    ) -> SessionLog:
        """
        Output of one rank so far, or a piece of it, without waiting; `session_logs` follows it. For the session's owner
        and admins.
        """
        return self._run(self._client.session_log(id, rank=rank, attempt=attempt, offset=offset, bytes_max=bytes_max))

    def session_steps(self, id: str, *, first: int = 20, after: str | None = None) -> SessionStepUncountedConnection:
        """State changes of a session, newest first, as far back as the event log is kept."""
        return self._run(self._client.session_steps(id, first=first, after=after))

    def idle_behind_quotas(self) -> IdleBehindQuotas | None:
        """GPUs that are idle while quotas hold waiting sessions back; null if there are none."""
        return self._run(self._client.idle_behind_quotas())

    def queue_statistics(self) -> QueueStatistics:
        """Length of the queue, waiting times and throughput."""
        return self._run(self._client.queue_statistics())

    def agents(
        self,
        *,
        filter: AgentFilter | None = None,
        order: AgentOrder = AgentOrder.ID,
        first: int = 20,
        after: str | None = None,
        min_revision: int | None = None,
    ) -> AgentConnection:
        """The agents of the cluster."""
        return self._run(
            self._client.agents(filter=filter, order=order, first=first, after=after, min_revision=min_revision)
        )

    def agent(self, agent_id: str, *, min_revision: int | None = None) -> Agent | None:
        """One agent by its id; null if there is none."""
        return self._run(self._client.agent(agent_id, min_revision=min_revision))

    def sessions(
        self,
        *,
        filter: SessionFilter | None = None,
        order: SessionOrder = SessionOrder.NEWEST,
        first: int = 20,
        after: str | None = None,
        min_revision: int | None = None,
    ) -> SessionConnection:
        """Sessions, including ended ones."""
        return self._run(
            self._client.sessions(filter=filter, order=order, first=first, after=after, min_revision=min_revision)
        )

    def session(self, id: str, *, min_revision: int | None = None) -> Session | None:
        """One session by its id; null if there is none."""
        return self._run(self._client.session(id, min_revision=min_revision))

    def queue(
        self, *, first: int = 20, after: str | None = None, min_revision: int | None = None
    ) -> QueueEntryConnection:
        """Waiting sessions in scheduling order."""
        return self._run(self._client.queue(first=first, after=after, min_revision=min_revision))
