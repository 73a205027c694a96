"""All queries, blocking.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from collections.abc import Sequence
from datetime import datetime

from aliquot.client.blocking_calls import BlockingCalls
from aliquot.client.errors import Refused
from aliquot.client.generated.accounts import ApiKey, Me, User
from aliquot.client.generated.agents import Agent
from aliquot.client.generated.alerts import NoticePreferences, NoticeReceiver, NoticeRule
from aliquot.client.generated.audit import AuditFilterInput, DeviceHolding, RecordCheck
from aliquot.client.generated.backtests import Backtest
from aliquot.client.generated.billing import FairShare, Statement
from aliquot.client.generated.bookings import Booking, BookingEffect, ReserveInput
from aliquot.client.generated.cluster import Cluster, ClusterPool, IdleBehindQuotas, Project, QueueStatistics
from aliquot.client.generated.enums import AgentOrder, AlertState, DocumentFormat, SessionOrder, UsageBy
from aliquot.client.generated.explanations import SessionExplanation, WhatIf, WhatIfInput
from aliquot.client.generated.forecasts import ForecastAccuracy
from aliquot.client.generated.history import History, SessionStats, UsageHistory
from aliquot.client.generated.inputs import AgentFilter, CreateSessionInput
from aliquot.client.generated.metrics import ArrayMetrics, SessionMetrics
from aliquot.client.generated.observation import ObservedGpu, ObservedWeek
from aliquot.client.generated.operations import Examination, Orchestrator
from aliquot.client.generated.pages import (
    AgentConnection,
    AlertUncountedConnection,
    AuditChangeUncountedConnection,
    DeliveryUncountedConnection,
    DeviceHoldingUncountedConnection,
    LedgerPassUncountedConnection,
    QueueEntryConnection,
    SessionConnection,
    SessionStepUncountedConnection,
)
from aliquot.client.generated.policy import Policy, Quota, QuotaUse, Usage
from aliquot.client.generated.previews import PreviewForecast, SessionPreview
from aliquot.client.generated.queries import Queries
from aliquot.client.generated.result_files import SessionFiles
from aliquot.client.generated.secrets import Secret
from aliquot.client.generated.sessions import Session, SessionFilter, SessionLog
from aliquot.client.generated.templates import SessionTemplate


class BlockingQueries(BlockingCalls):
    """All queries of the server, blocking."""

    _plain: Queries

    def me(self) -> Me:
        """The authenticated caller."""
        return self._ask(self._plain.me())

    def users(self) -> tuple[User, ...]:
        """All users. For operators."""
        return self._ask(self._plain.users())

    def api_keys(self, *, user: str | None = None) -> tuple[ApiKey, ...]:
        """API keys, oldest first: the caller's own; for admins, all."""
        return self._ask(self._plain.api_keys(user=user))

    def policy(self) -> Policy:
        """The scheduling policy."""
        return self._ask(self._plain.policy())

    def quotas(self) -> tuple[Quota, ...]:
        """All quotas."""
        return self._ask(self._plain.quotas())

    def quota_use(self) -> tuple[QuotaUse, ...]:
        """
        What quotas limit, as it is now: of the cluster, and of each user and project that holds, queues or has used
        something.
        """
        return self._ask(self._plain.quota_use())

    def usage(self, *, user: str | None = None, project: str | None = None) -> tuple[Usage, ...]:
        """Usage by project and user."""
        return self._ask(self._plain.usage(user=user, project=project))

    def audit(
        self, *, filter: AuditFilterInput | None = None, first: int = 20, after: str | None = None
    ) -> AuditChangeUncountedConnection:
        """The audit log: who changed what, newest first. For operators."""
        return self._ask(self._plain.audit(filter=filter, first=first, after=after))

    def held_by(self, device_id: str, *, at: datetime) -> tuple[DeviceHolding, ...]:
        """Holders of a device at a given time, in order of their grants. For operators."""
        return self._ask(self._plain.held_by(device_id, at=at))

    def device_holdings(
        self,
        device_id: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        first: int = 20,
        after: str | None = None,
    ) -> DeviceHoldingUncountedConnection:
        """Holders of a device in a period, newest grants first; from archives, too. For operators."""
        return self._ask(self._plain.device_holdings(device_id, since=since, until=until, first=first, after=after))

    def record_check(self, *, since: datetime | None = None) -> RecordCheck:
        """
        Verifies the record, and waits up to 20 seconds for the result. While `ended_at` is null, ask again with
        `started_at` as `since`. There is one verification at a time; others wait for its result. For operators.
        """
        return self._ask(self._plain.record_check(since=since))

    def device_timeline(
        self, device_ids: Sequence[str], *, since: datetime, until: datetime | None = None
    ) -> tuple[DeviceHolding, ...]:
        """
        Who held these devices in a period, in order of the grants; at most 5,000 entries, the newest. For every user,
        like the holders of a device. Periods that are archived are left out.
        """
        return self._ask(self._plain.device_timeline(device_ids, since=since, until=until))

    def ledger_passes(self, *, first: int = 20, after: str | None = None) -> LedgerPassUncountedConnection:
        """Recorded scheduling passes, newest first; `aliquot replay PASS` repeats one. For operators."""
        return self._ask(self._plain.ledger_passes(first=first, after=after))

    def backtest(self, id: str) -> Backtest | None:
        """A backtest; null if there is none of this id any more. For operators."""
        return self._ask(self._plain.backtest(id))

    def backtests(self) -> tuple[Backtest, ...]:
        """The newest 50 backtests, the newest first, without results. For operators."""
        return self._ask(self._plain.backtests())

    def statement(self, project: str, *, month: str | None = None) -> Statement:
        """The statement of a project for a month. Empty until the policy has prices."""
        return self._ask(self._plain.statement(project, month=month))

    def statements(self, *, month: str | None = None) -> tuple[Statement, ...]:
        """The statements of all projects for a month, the largest first."""
        return self._ask(self._plain.statements(month=month))

    def statement_document(self, project: str, *, format: DocumentFormat, month: str | None = None) -> str:
        """A statement as a document."""
        return self._ask(self._plain.statement_document(project, format=format, month=month))

    def fair_shares(self, *, user: str | None = None, project: str | None = None) -> tuple[FairShare, ...]:
        """Share, entitlement and decay of each user's usage, and what would move them up."""
        return self._ask(self._plain.fair_shares(user=user, project=project))

    def reservations(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        owner: str | None = None,
        ended: bool = False,
        min_revision: int | None = None,
    ) -> tuple[Booking, ...]:
        """Bookings, the earliest first; at most 2000."""
        return self._ask(
            self._plain.reservations(since=since, until=until, owner=owner, ended=ended, min_revision=min_revision)
        )

    def reservation_effect(self, input: ReserveInput) -> BookingEffect:
        """
        Whether a booking would be accepted now, and which waiting sessions it would delay if it is used for its whole
        window, by the planned future of `what_if`. Nothing is booked.
        """
        return self._ask(self._plain.reservation_effect(input))

    def cluster(self) -> Cluster:
        """The cluster: hosts, GPUs and capacity."""
        return self._ask(self._plain.cluster())

    def pools(self, *, name: str | None = None) -> tuple[ClusterPool, ...]:
        """The policy's pools with their agents, capacity and load."""
        return self._ask(self._plain.pools(name=name))

    def projects(self, *, name: str | None = None) -> tuple[Project, ...]:
        """Projects with their users, usage and quotas."""
        return self._ask(self._plain.projects(name=name))

    def doctor(self) -> Examination:
        """Inspect all agents now and report discrepancies. For operators."""
        return self._ask(self._plain.doctor())

    def forecast_accuracy(self) -> ForecastAccuracy:
        """How accurate forecasts of starts were, by group."""
        return self._ask(self._plain.forecast_accuracy())

    def session_stats(self, id: str) -> SessionStats:
        """What a session used of what it held, with one line of advice."""
        return self._ask(self._plain.session_stats(id))

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
        return self._ask(
            self._plain.device_history(agent_id, device_ids=device_ids, since=since, until=until, points=points)
        )

    def queue_history(
        self, *, since: datetime | None = None, until: datetime | None = None, points: int = 300
    ) -> History:
        """Length of the queue and number of held GPUs over time."""
        return self._ask(self._plain.queue_history(since=since, until=until, points=points))

    def session_history(self, id: str, *, points: int = 300) -> History:
        """
        Measurements of a session's devices while it held them. For its owner, members of its project and operators.
        """
        return self._ask(self._plain.session_history(id, points=points))

    def usage_history(
        self,
        *,
        by: UsageBy = UsageBy.USER,
        since: datetime | None = None,
        until: datetime | None = None,
        step: float | None = None,
    ) -> UsageHistory:
        """GPU usage by user or project over time, from the audit log."""
        return self._ask(self._plain.usage_history(by=by, since=since, until=until, step=step))

    def session_metrics(self, id: str, *, rank: int = 0) -> SessionMetrics:
        """
        Metrics in the output of a session: lines like `::metric loss=0.31 step=40`, and those of its request. For the
        session's owner and admins.
        """
        return self._ask(self._plain.session_metrics(id, rank=rank))

    def array_metrics(self, id: str, *, first: int = 100, after: int | None = None) -> ArrayMetrics:
        """Metrics of the tasks of a job array. For the array's owner and admins."""
        return self._ask(self._plain.array_metrics(id, first=first, after=after))

    def alerts(
        self, *, state: AlertState | None = AlertState.OPEN, first: int = 20, after: str | None = None
    ) -> AlertUncountedConnection:
        """Alerts, newest first."""
        return self._ask(self._plain.alerts(state=state, first=first, after=after))

    def notice_rules(self) -> tuple[NoticeRule, ...]:
        """All alert rules. For operators."""
        return self._ask(self._plain.notice_rules())

    def notice_receivers(self) -> tuple[NoticeReceiver, ...]:
        """All receivers of notices. For admins."""
        return self._ask(self._plain.notice_receivers())

    def deliveries(
        self, *, notice_id: str | None = None, first: int = 20, after: str | None = None
    ) -> DeliveryUncountedConnection:
        """Deliveries of notices, newest first. For admins."""
        return self._ask(self._plain.deliveries(notice_id=notice_id, first=first, after=after))

    def notice_preferences(self) -> NoticePreferences:
        """The caller's notice preferences."""
        return self._ask(self._plain.notice_preferences())

    def orchestrator(self) -> Orchestrator:
        """State of the servers: which one leads, and whether sessions are placed."""
        return self._ask(self._plain.orchestrator())

    def what_if(self, input: WhatIfInput) -> WhatIf:
        """What one more session, a drained agent, another policy or more agents would mean for waiting sessions."""
        return self._ask(self._plain.what_if(input))

    def session_why(self, id: str) -> SessionExplanation | None:
        """
        Why a session waits, and what would help, as far as the caller may do it; null if there is no such session, or
        it ended long ago.
        """
        return self._ask(self._plain.session_why(id))

    def preview_forecasts(self, inputs: Sequence[CreateSessionInput]) -> tuple[PreviewForecast | Refused, ...]:
        """
        When sessions would start if they were submitted, each of them alone, in the order given. The forecast process
        of the leading server answers, which may take some seconds while the queue is long.
        """
        return self._ask(self._plain.preview_forecasts(inputs))

    def preview_session(self, input: CreateSessionInput) -> SessionPreview:
        """Preview the scheduling of a session without submitting it."""
        return self._ask(self._plain.preview_session(input))

    def session_files(self, id: str, *, rank: int = 0, first: int = 100, after: str | None = None) -> SessionFiles:
        """The files below RESULT_DIR of a session that runs or has ended. For the session's owner and admins."""
        return self._ask(self._plain.session_files(id, rank=rank, first=first, after=after))

    def secrets(self) -> tuple[Secret, ...]:
        """The caller's secrets by name, without their values."""
        return self._ask(self._plain.secrets())

    def session_log(
        self, id: str, *, rank: int = 0, attempt: int | None = None, offset: int = 0, bytes_max: int = 65536
    ) -> SessionLog:
        """
        Output of one rank so far, or a piece of it, without waiting; `session_logs` follows it. For the session's owner
        and admins.
        """
        return self._ask(self._plain.session_log(id, rank=rank, attempt=attempt, offset=offset, bytes_max=bytes_max))

    def session_steps(self, id: str, *, first: int = 20, after: str | None = None) -> SessionStepUncountedConnection:
        """State changes of a session, newest first, as far back as the event log is kept."""
        return self._ask(self._plain.session_steps(id, first=first, after=after))

    def idle_behind_quotas(self) -> IdleBehindQuotas | None:
        """GPUs that are idle while quotas hold waiting sessions back; null if there are none."""
        return self._ask(self._plain.idle_behind_quotas())

    def queue_statistics(self) -> QueueStatistics:
        """Length of the queue, waiting times and throughput."""
        return self._ask(self._plain.queue_statistics())

    def observed_gpus(self) -> tuple[ObservedGpu, ...]:
        """Who uses which GPU now, by the processes on it, whoever started them."""
        return self._ask(self._plain.observed_gpus())

    def observed_week(self, *, week: str | None = None) -> ObservedWeek | None:
        """
        GPU-hours by person in a week, whoever started the processes; null if nothing was recorded. Recorded by a server
        in the mode observe or advise.
        """
        return self._ask(self._plain.observed_week(week=week))

    def session_templates(self) -> tuple[SessionTemplate, ...]:
        """Session templates of the caller and their projects, for operators of all projects; by project and name."""
        return self._ask(self._plain.session_templates())

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
        return self._ask(
            self._plain.agents(filter=filter, order=order, first=first, after=after, min_revision=min_revision)
        )

    def agent(self, agent_id: str, *, min_revision: int | None = None) -> Agent | None:
        """One agent by its id; null if there is none."""
        return self._ask(self._plain.agent(agent_id, min_revision=min_revision))

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
        return self._ask(
            self._plain.sessions(filter=filter, order=order, first=first, after=after, min_revision=min_revision)
        )

    def session(self, id: str, *, min_revision: int | None = None) -> Session | None:
        """One session by its id; null if there is none."""
        return self._ask(self._plain.session(id, min_revision=min_revision))

    def queue(
        self, *, first: int = 20, after: str | None = None, min_revision: int | None = None
    ) -> QueueEntryConnection:
        """Waiting sessions in scheduling order."""
        return self._ask(self._plain.queue(first=first, after=after, min_revision=min_revision))
