"""Every query, waited for.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from collections.abc import Sequence
from datetime import datetime

from aliquot.client.blocking_calls import BlockingCalls
from aliquot.client.generated.accounts import ApiKey, Me, User
from aliquot.client.generated.administration import Policy, Quota, Usage
from aliquot.client.generated.agents import Agent
from aliquot.client.generated.audit import AuditFilterInput, DeviceHolding
from aliquot.client.generated.cluster import Cluster
from aliquot.client.generated.divisions import ClusterPool, Project
from aliquot.client.generated.doctor import Examination
from aliquot.client.generated.enums import AgentOrder, AlertState, SessionOrder, UsageBy
from aliquot.client.generated.history import History, UsageHistory
from aliquot.client.generated.inputs import AgentFilter, CreateSessionInput
from aliquot.client.generated.notices import NoticePreferences, NoticeReceiver, NoticeRule
from aliquot.client.generated.orchestrator import Orchestrator
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
from aliquot.client.generated.previews import SessionPreview
from aliquot.client.generated.queries import Queries
from aliquot.client.generated.secrets import Secret
from aliquot.client.generated.session_filters import SessionFilter
from aliquot.client.generated.session_log import SessionLog
from aliquot.client.generated.sessions import Session
from aliquot.client.generated.statistics import QueueStatistics


class BlockingQueries(BlockingCalls):
    """Every query of the server, waited for."""

    _client: Queries

    def me(self) -> Me:
        """Who asks."""
        return self._run(self._client.me())

    def users(self) -> tuple[User, ...]:
        """Everybody who may come in, for operators."""
        return self._run(self._client.users())

    def api_keys(self, *, user: str | None = None) -> tuple[ApiKey, ...]:
        """Keys, the oldest first: one's own; for admins, all."""
        return self._run(self._client.api_keys(user=user))

    def policy(self) -> Policy:
        """What the allocator decides by."""
        return self._run(self._client.policy())

    def quotas(self) -> tuple[Quota, ...]:
        """All quotas."""
        return self._run(self._client.quotas())

    def usage(self, *, user: str | None = None, project: str | None = None) -> tuple[Usage, ...]:
        """What users have used within projects."""
        return self._run(self._client.usage(user=user, project=project))

    def audit(
        self, *, filter: AuditFilterInput | None = None, first: int = 20, after: str | None = None
    ) -> AuditChangeUncountedConnection:
        """Who changed what, the newest first. For operators."""
        return self._run(self._client.audit(filter=filter, first=first, after=after))

    def held_by(self, device_id: str, *, at: datetime) -> tuple[DeviceHolding, ...]:
        """Who held a device at a moment, in the order of the grants. For operators."""
        return self._run(self._client.held_by(device_id, at=at))

    def ledger_passes(self, *, first: int = 20, after: str | None = None) -> LedgerPassUncountedConnection:
        """
        Passes of the allocator that decided something new, the newest first; `aliquot replay PASS` decides one again.
        For operators.
        """
        return self._run(self._client.ledger_passes(first=first, after=after))

    def cluster(self) -> Cluster:
        """What the agents are on, and have together."""
        return self._run(self._client.cluster())

    def pools(self, *, name: str | None = None) -> tuple[ClusterPool, ...]:
        """The pools of the policy, and what is in them, waits for them and runs there."""
        return self._run(self._client.pools(name=name))

    def projects(self, *, name: str | None = None) -> tuple[Project, ...]:
        """Projects: who uses them, what they hold and have used, and their quotas."""
        return self._run(self._client.projects(name=name))

    def doctor(self) -> Examination:
        """Ask every agent now, and tell what does not agree. For operators."""
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
        """What an agent's accelerators measured over time."""
        return self._run(
            self._client.device_history(agent_id, device_ids=device_ids, since=since, until=until, points=points)
        )

    def queue_history(
        self, *, since: datetime | None = None, until: datetime | None = None, points: int = 300
    ) -> History:
        """How long the queue was, and how many GPUs were held, over time."""
        return self._run(self._client.queue_history(since=since, until=until, points=points))

    def session_history(self, id: str, *, points: int = 300) -> History:
        """
        What the devices of a session measured while it held them. For its owner, members of its project and operators.
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
        """Who held how many GPUs over time, by the record of what was granted."""
        return self._run(self._client.usage_history(by=by, since=since, until=until, step=step))

    def alerts(
        self, *, state: AlertState | None = AlertState.OPEN, first: int = 20, after: str | None = None
    ) -> AlertUncountedConnection:
        """Alerts, the newest first."""
        return self._run(self._client.alerts(state=state, first=first, after=after))

    def notice_rules(self) -> tuple[NoticeRule, ...]:
        """When alerts open. For operators."""
        return self._run(self._client.notice_rules())

    def notice_receivers(self) -> tuple[NoticeReceiver, ...]:
        """Where notices go. For admins."""
        return self._run(self._client.notice_receivers())

    def deliveries(
        self, *, notice_id: str | None = None, first: int = 20, after: str | None = None
    ) -> DeliveryUncountedConnection:
        """Notices to receivers and what became of them, the newest first. For admins."""
        return self._run(self._client.deliveries(notice_id=notice_id, first=first, after=after))

    def notice_preferences(self) -> NoticePreferences:
        """Where you are told of your sessions, and what of."""
        return self._run(self._client.notice_preferences())

    def orchestrator(self) -> Orchestrator:
        """Which server leads, what the one that answers does, and whether anything is placed."""
        return self._run(self._client.orchestrator())

    def preview_session(self, input: CreateSessionInput) -> SessionPreview:
        """What would become of a session if it were submitted now. Changes nothing."""
        return self._run(self._client.preview_session(input))

    def secrets(self) -> tuple[Secret, ...]:
        """Your secrets, by name, without their values."""
        return self._run(self._client.secrets())

    def session_log(
        self, id: str, *, rank: int = 0, attempt: int | None = None, offset: int = 0, bytes_max: int = 65536
    ) -> SessionLog:
        """
        What one rank has printed so far, or a piece of it. Nothing is waited for; `session_logs` follows it. For its
        owner and admins.
        """
        return self._run(self._client.session_log(id, rank=rank, attempt=attempt, offset=offset, bytes_max=bytes_max))

    def session_steps(self, id: str, *, first: int = 20, after: str | None = None) -> SessionStepUncountedConnection:
        """What a session went through, the newest step first, as far back as the event log is kept."""
        return self._run(self._client.session_steps(id, first=first, after=after))

    def queue_statistics(self) -> QueueStatistics:
        """How long the queue is, how long it lets wait, and how much it gets done."""
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
        """One agent; null when there is none of this id."""
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
        """Sessions, ended ones included."""
        return self._run(
            self._client.sessions(filter=filter, order=order, first=first, after=after, min_revision=min_revision)
        )

    def session(self, id: str, *, min_revision: int | None = None) -> Session | None:
        """One session; null when there is none of this id."""
        return self._run(self._client.session(id, min_revision=min_revision))

    def queue(
        self, *, first: int = 20, after: str | None = None, min_revision: int | None = None
    ) -> QueueEntryConnection:
        """The sessions that wait, in the order in which the allocator looks at them."""
        return self._run(self._client.queue(first=first, after=after, min_revision=min_revision))
