"""All queries.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

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
from aliquot.client.generated.result_files import SessionFiles
from aliquot.client.generated.secrets import Secret
from aliquot.client.generated.sessions import Session, SessionFilter, SessionLog
from aliquot.client.generated.templates import SessionTemplate
from aliquot.client.requests import Requests

ME: Final = """query me { me { ...Me } }"""
USERS: Final = """query users { users { ...User } }"""
API_KEYS: Final = """query api_keys($user: String = null) { api_keys(user: $user) { ...ApiKey } }"""
POLICY: Final = """query policy { policy { ...Policy } }"""
QUOTAS: Final = """query quotas { quotas { ...Quota } }"""
QUOTA_USE: Final = """query quota_use { quota_use { ...QuotaUse } }"""
USAGE: Final = """
query usage($user: String = null, $project: String = null) { usage(user: $user, project:
$project) { ...Usage } }"""
AUDIT: Final = """
query audit($filter: AuditFilterInput = null, $first: Int! = 20, $after: String = null) {
audit(filter: $filter, first: $first, after: $after) { ...AuditChangeUncountedConnection }
}"""
HELD_BY: Final = """
query held_by($device_id: String!, $at: DateTime!) { held_by(device_id: $device_id, at:
$at) { ...DeviceHolding } }"""
DEVICE_HOLDINGS: Final = """
query device_holdings($device_id: String!, $since: DateTime = null, $until: DateTime =
null, $first: Int! = 20, $after: String = null) { device_holdings(device_id: $device_id,
since: $since, until: $until, first: $first, after: $after) {
...DeviceHoldingUncountedConnection } }"""
RECORD_CHECK: Final = """
query record_check($since: DateTime = null) { record_check(since: $since) { ...RecordCheck
} }"""
DEVICE_TIMELINE: Final = """
query device_timeline($device_ids: [String!]!, $since: DateTime!, $until: DateTime = null)
{ device_timeline(device_ids: $device_ids, since: $since, until: $until) {
...DeviceHolding } }"""
LEDGER_PASSES: Final = """
query ledger_passes($first: Int! = 20, $after: String = null) { ledger_passes(first:
$first, after: $after) { ...LedgerPassUncountedConnection } }"""
BACKTEST: Final = """query backtest($id: ID!) { backtest(id: $id) { ...Backtest } }"""
BACKTESTS: Final = """query backtests { backtests { ...Backtest } }"""
STATEMENT: Final = """
query statement($project: String!, $month: String = null) { statement(project: $project,
month: $month) { ...Statement } }"""
STATEMENTS: Final = """query statements($month: String = null) { statements(month: $month) { ...Statement } }"""
STATEMENT_DOCUMENT: Final = """
query statement_document($project: String!, $format: DocumentFormat!, $month: String =
null) { statement_document(project: $project, format: $format, month: $month) }"""
FAIR_SHARES: Final = """
query fair_shares($user: String = null, $project: String = null) { fair_shares(user:
$user, project: $project) { ...FairShare } }"""
RESERVATIONS: Final = """
query reservations($since: DateTime = null, $until: DateTime = null, $owner: String =
null, $ended: Boolean! = false, $min_revision: BigInt = null) { reservations(since:
$since, until: $until, owner: $owner, ended: $ended, min_revision: $min_revision) {
...Booking } }"""
RESERVATION_EFFECT: Final = """
query reservation_effect($input: ReserveInput!) { reservation_effect(input: $input) {
...BookingEffect } }"""
CLUSTER: Final = """query cluster { cluster { ...Cluster } }"""
POOLS: Final = """query pools($name: String = null) { pools(name: $name) { ...ClusterPool } }"""
PROJECTS: Final = """query projects($name: String = null) { projects(name: $name) { ...Project } }"""
DOCTOR: Final = """query doctor { doctor { ...Examination } }"""
FORECAST_ACCURACY: Final = """query forecast_accuracy { forecast_accuracy { ...ForecastAccuracy } }"""
SESSION_STATS: Final = """query session_stats($id: ID!) { session_stats(id: $id) { ...SessionStats } }"""
DEVICE_HISTORY: Final = """
query device_history($agent_id: String!, $device_ids: [String!] = null, $since: DateTime =
null, $until: DateTime = null, $points: Int! = 300) { device_history(agent_id: $agent_id,
device_ids: $device_ids, since: $since, until: $until, points: $points) { ...History } }"""
QUEUE_HISTORY: Final = """
query queue_history($since: DateTime = null, $until: DateTime = null, $points: Int! = 300)
{ queue_history(since: $since, until: $until, points: $points) { ...History } }"""
SESSION_HISTORY: Final = """
query session_history($id: ID!, $points: Int! = 300) { session_history(id: $id, points:
$points) { ...History } }"""
USAGE_HISTORY: Final = """
query usage_history($by: UsageBy! = user, $since: DateTime = null, $until: DateTime =
null, $step: Float = null) { usage_history(by: $by, since: $since, until: $until, step:
$step) { ...UsageHistory } }"""
SESSION_METRICS: Final = """
query session_metrics($id: ID!, $rank: Int! = 0) { session_metrics(id: $id, rank: $rank) {
...SessionMetrics } }"""
ARRAY_METRICS: Final = """
query array_metrics($id: ID!, $first: Int! = 100, $after: Int = null) { array_metrics(id:
$id, first: $first, after: $after) { ...ArrayMetrics } }"""
ALERTS: Final = """
query alerts($state: AlertState = open, $first: Int! = 20, $after: String = null) {
alerts(state: $state, first: $first, after: $after) { ...AlertUncountedConnection } }"""
NOTICE_RULES: Final = """query notice_rules { notice_rules { ...NoticeRule } }"""
NOTICE_RECEIVERS: Final = """query notice_receivers { notice_receivers { ...NoticeReceiver } }"""
DELIVERIES: Final = """
query deliveries($notice_id: ID = null, $first: Int! = 20, $after: String = null) {
deliveries(notice_id: $notice_id, first: $first, after: $after) {
...DeliveryUncountedConnection } }"""
NOTICE_PREFERENCES: Final = """query notice_preferences { notice_preferences { ...NoticePreferences } }"""
ORCHESTRATOR: Final = """query orchestrator { orchestrator { ...Orchestrator } }"""
WHAT_IF: Final = """query what_if($input: WhatIfInput!) { what_if(input: $input) { ...WhatIfResult } }"""
SESSION_WHY: Final = """query session_why($id: ID!) { session_why(id: $id) { ...SessionExplanation } }"""
PREVIEW_FORECASTS: Final = """
query preview_forecasts($inputs: [CreateSessionInput!]!) { preview_forecasts(inputs:
$inputs) { ...PreviewForecastResult } }"""
PREVIEW_SESSION: Final = """
query preview_session($input: CreateSessionInput!) { preview_session(input: $input) {
...PreviewSessionResult } }"""
SESSION_FILES: Final = """
query session_files($id: ID!, $rank: Int! = 0, $first: Int! = 100, $after: String = null)
{ session_files(id: $id, rank: $rank, first: $first, after: $after) { ...SessionFiles } }"""
SECRETS: Final = """query secrets { secrets { ...Secret } }"""
SESSION_LOG: Final = """
query session_log($id: ID!, $rank: Int! = 0, $attempt: Int = null, $offset: BigInt! = 0,
$bytes_max: Int! = 65536) { session_log(id: $id, rank: $rank, attempt: $attempt, offset:
$offset, bytes_max: $bytes_max) { ...SessionLog } }"""
SESSION_STEPS: Final = """
query session_steps($id: ID!, $first: Int! = 20, $after: String = null) {
session_steps(id: $id, first: $first, after: $after) { ...SessionStepUncountedConnection }
}"""
IDLE_BEHIND_QUOTAS: Final = """query idle_behind_quotas { idle_behind_quotas { ...IdleBehindQuotas } }"""
QUEUE_STATISTICS: Final = """query queue_statistics { queue_statistics { ...QueueStatistics } }"""
OBSERVED_GPUS: Final = """query observed_gpus { observed_gpus { ...ObservedGpu } }"""
OBSERVED_WEEK: Final = """
query observed_week($week: String = null) { observed_week(week: $week) { ...ObservedWeek }
}"""
SESSION_TEMPLATES: Final = """query session_templates { session_templates { ...SessionTemplate } }"""
AGENTS: Final = """
query agents($filter: AgentFilter = null, $order: AgentOrder! = id, $first: Int! = 20,
$after: String = null, $min_revision: BigInt = null) { agents(filter: $filter, order:
$order, first: $first, after: $after, min_revision: $min_revision) { ...AgentConnection }
}"""
AGENT: Final = """
query agent($agent_id: String!, $min_revision: BigInt = null) { agent(agent_id: $agent_id,
min_revision: $min_revision) { ...Agent } }"""
SESSIONS: Final = """
query sessions($filter: SessionFilter = null, $order: SessionOrder! = newest, $first: Int!
= 20, $after: String = null, $min_revision: BigInt = null) { sessions(filter: $filter,
order: $order, first: $first, after: $after, min_revision: $min_revision) {
...SessionConnection } }"""
SESSION: Final = """
query session($id: ID!, $min_revision: BigInt = null) { session(id: $id, min_revision:
$min_revision) { ...Session } }"""
QUEUE: Final = """
query queue($first: Int! = 20, $after: String = null, $min_revision: BigInt = null) {
queue(first: $first, after: $after, min_revision: $min_revision) { ...QueueEntryConnection
} }"""


class Queries(Requests):
    """All queries of the server."""

    async def me(self) -> Me:
        """The authenticated caller."""
        found: Me = await self._read(ME, {}, Me)
        return found

    async def users(self) -> tuple[User, ...]:
        """All users. For operators."""
        found: tuple[User, ...] = await self._read(USERS, {}, tuple[User, ...])
        return found

    async def api_keys(self, *, user: str | None = None) -> tuple[ApiKey, ...]:
        """API keys, oldest first: the caller's own; for admins, all."""
        found: tuple[ApiKey, ...] = await self._read(API_KEYS, {"user": user}, tuple[ApiKey, ...])
        return found

    async def policy(self) -> Policy:
        """The scheduling policy."""
        found: Policy = await self._read(POLICY, {}, Policy)
        return found

    async def quotas(self) -> tuple[Quota, ...]:
        """All quotas."""
        found: tuple[Quota, ...] = await self._read(QUOTAS, {}, tuple[Quota, ...])
        return found

    async def quota_use(self) -> tuple[QuotaUse, ...]:
        """
        What quotas limit, as it is now: of the cluster, and of each user and project that holds, queues or has used
        something.
        """
        found: tuple[QuotaUse, ...] = await self._read(QUOTA_USE, {}, tuple[QuotaUse, ...])
        return found

    async def usage(self, *, user: str | None = None, project: str | None = None) -> tuple[Usage, ...]:
        """Usage by project and user."""
        found: tuple[Usage, ...] = await self._read(USAGE, {"user": user, "project": project}, tuple[Usage, ...])
        return found

    async def audit(
        self, *, filter: AuditFilterInput | None = None, first: int = 20, after: str | None = None
    ) -> AuditChangeUncountedConnection:
        """The audit log: who changed what, newest first. For operators."""
        found: AuditChangeUncountedConnection = await self._read(
            AUDIT, {"filter": filter, "first": first, "after": after}, AuditChangeUncountedConnection
        )
        return found

    async def held_by(self, device_id: str, *, at: datetime) -> tuple[DeviceHolding, ...]:
        """Holders of a device at a given time, in order of their grants. For operators."""
        found: tuple[DeviceHolding, ...] = await self._read(
            HELD_BY, {"device_id": device_id, "at": at}, tuple[DeviceHolding, ...]
        )
        return found

    async def device_holdings(
        self,
        device_id: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        first: int = 20,
        after: str | None = None,
    ) -> DeviceHoldingUncountedConnection:
        """Holders of a device in a period, newest grants first; from archives, too. For operators."""
        found: DeviceHoldingUncountedConnection = await self._read(
            DEVICE_HOLDINGS,
            {"device_id": device_id, "since": since, "until": until, "first": first, "after": after},
            DeviceHoldingUncountedConnection,
        )
        return found

    async def record_check(self, *, since: datetime | None = None) -> RecordCheck:
        """
        Verifies the record, and waits up to 20 seconds for the result. While `ended_at` is null, ask again with
        `started_at` as `since`. There is one verification at a time; others wait for its result. For operators.
        """
        found: RecordCheck = await self._read(RECORD_CHECK, {"since": since}, RecordCheck)
        return found

    async def device_timeline(
        self, device_ids: Sequence[str], *, since: datetime, until: datetime | None = None
    ) -> tuple[DeviceHolding, ...]:
        """
        Who held these devices in a period, in order of the grants; at most 5,000 entries, the newest. For every user,
        like the holders of a device. Periods that are archived are left out.
        """
        found: tuple[DeviceHolding, ...] = await self._read(
            DEVICE_TIMELINE, {"device_ids": device_ids, "since": since, "until": until}, tuple[DeviceHolding, ...]
        )
        return found

    async def ledger_passes(self, *, first: int = 20, after: str | None = None) -> LedgerPassUncountedConnection:
        """Recorded scheduling passes, newest first; `aliquot replay PASS` repeats one. For operators."""
        found: LedgerPassUncountedConnection = await self._read(
            LEDGER_PASSES, {"first": first, "after": after}, LedgerPassUncountedConnection
        )
        return found

    async def backtest(self, id: str) -> Backtest | None:
        """A backtest; null if there is none of this id any more. For operators."""
        found: Backtest | None = await self._read(BACKTEST, {"id": id}, Backtest | None)
        return found

    async def backtests(self) -> tuple[Backtest, ...]:
        """The newest 50 backtests, the newest first, without results. For operators."""
        found: tuple[Backtest, ...] = await self._read(BACKTESTS, {}, tuple[Backtest, ...])
        return found

    async def statement(self, project: str, *, month: str | None = None) -> Statement:
        """The statement of a project for a month. Empty until the policy has prices."""
        found: Statement = await self._read(STATEMENT, {"project": project, "month": month}, Statement)
        return found

    async def statements(self, *, month: str | None = None) -> tuple[Statement, ...]:
        """The statements of all projects for a month, the largest first."""
        found: tuple[Statement, ...] = await self._read(STATEMENTS, {"month": month}, tuple[Statement, ...])
        return found

    async def statement_document(self, project: str, *, format: DocumentFormat, month: str | None = None) -> str:
        """A statement as a document."""
        found: str = await self._read(STATEMENT_DOCUMENT, {"project": project, "format": format, "month": month}, str)
        return found

    async def fair_shares(self, *, user: str | None = None, project: str | None = None) -> tuple[FairShare, ...]:
        """Share, entitlement and decay of each user's usage, and what would move them up."""
        found: tuple[FairShare, ...] = await self._read(
            FAIR_SHARES, {"user": user, "project": project}, tuple[FairShare, ...]
        )
        return found

    async def reservations(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        owner: str | None = None,
        ended: bool = False,
        min_revision: int | None = None,
    ) -> tuple[Booking, ...]:
        """Bookings, the earliest first; at most 2000."""
        found: tuple[Booking, ...] = await self._read(
            RESERVATIONS,
            {"since": since, "until": until, "owner": owner, "ended": ended, "min_revision": min_revision},
            tuple[Booking, ...],
        )
        return found

    async def reservation_effect(self, input: ReserveInput) -> BookingEffect:
        """
        Whether a booking would be accepted now, and which waiting sessions it would delay if it is used for its whole
        window, by the planned future of `what_if`. Nothing is booked.
        """
        found: BookingEffect = await self._read(RESERVATION_EFFECT, {"input": input}, BookingEffect)
        return found

    async def cluster(self) -> Cluster:
        """The cluster: hosts, GPUs and capacity."""
        found: Cluster = await self._read(CLUSTER, {}, Cluster)
        return found

    async def pools(self, *, name: str | None = None) -> tuple[ClusterPool, ...]:
        """The policy's pools with their agents, capacity and load."""
        found: tuple[ClusterPool, ...] = await self._read(POOLS, {"name": name}, tuple[ClusterPool, ...])
        return found

    async def projects(self, *, name: str | None = None) -> tuple[Project, ...]:
        """Projects with their users, usage and quotas."""
        found: tuple[Project, ...] = await self._read(PROJECTS, {"name": name}, tuple[Project, ...])
        return found

    async def doctor(self) -> Examination:
        """Inspect all agents now and report discrepancies. For operators."""
        found: Examination = await self._read(DOCTOR, {}, Examination)
        return found

    async def forecast_accuracy(self) -> ForecastAccuracy:
        """How accurate forecasts of starts were, by group."""
        found: ForecastAccuracy = await self._read(FORECAST_ACCURACY, {}, ForecastAccuracy)
        return found

    async def session_stats(self, id: str) -> SessionStats:
        """What a session used of what it held, with one line of advice."""
        found: SessionStats = await self._read(SESSION_STATS, {"id": id}, SessionStats)
        return found

    async def device_history(
        self,
        agent_id: str,
        *,
        device_ids: Sequence[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        points: int = 300,
    ) -> History:
        """Measurements of an agent's accelerators over time."""
        found: History = await self._read(
            DEVICE_HISTORY,
            {"agent_id": agent_id, "device_ids": device_ids, "since": since, "until": until, "points": points},
            History,
        )
        return found

    async def queue_history(
        self, *, since: datetime | None = None, until: datetime | None = None, points: int = 300
    ) -> History:
        """Length of the queue and number of held GPUs over time."""
        found: History = await self._read(QUEUE_HISTORY, {"since": since, "until": until, "points": points}, History)
        return found

    async def session_history(self, id: str, *, points: int = 300) -> History:
        """
        Measurements of a session's devices while it held them. For its owner, members of its project and operators.
        """
        found: History = await self._read(SESSION_HISTORY, {"id": id, "points": points}, History)
        return found

    async def usage_history(
        self,
        *,
        by: UsageBy = UsageBy.USER,
        since: datetime | None = None,
        until: datetime | None = None,
        step: float | None = None,
    ) -> UsageHistory:
        """GPU usage by user or project over time, from the audit log."""
        found: UsageHistory = await self._read(
            USAGE_HISTORY, {"by": by, "since": since, "until": until, "step": step}, UsageHistory
        )
        return found

    async def session_metrics(self, id: str, *, rank: int = 0) -> SessionMetrics:
        """
        Metrics in the output of a session: lines like `::metric loss=0.31 step=40`, and those of its request. For the
        session's owner and admins.
        """
        found: SessionMetrics = await self._read(SESSION_METRICS, {"id": id, "rank": rank}, SessionMetrics)
        return found

    async def array_metrics(self, id: str, *, first: int = 100, after: int | None = None) -> ArrayMetrics:
        """Metrics of the tasks of a job array. For the array's owner and admins."""
        found: ArrayMetrics = await self._read(ARRAY_METRICS, {"id": id, "first": first, "after": after}, ArrayMetrics)
        return found

    async def alerts(
        self, *, state: AlertState | None = AlertState.OPEN, first: int = 20, after: str | None = None
    ) -> AlertUncountedConnection:
        """Alerts, newest first."""
        found: AlertUncountedConnection = await self._read(
            ALERTS, {"state": state, "first": first, "after": after}, AlertUncountedConnection
        )
        return found

    async def notice_rules(self) -> tuple[NoticeRule, ...]:
        """All alert rules. For operators."""
        found: tuple[NoticeRule, ...] = await self._read(NOTICE_RULES, {}, tuple[NoticeRule, ...])
        return found

    async def notice_receivers(self) -> tuple[NoticeReceiver, ...]:
        """All receivers of notices. For admins."""
        found: tuple[NoticeReceiver, ...] = await self._read(NOTICE_RECEIVERS, {}, tuple[NoticeReceiver, ...])
        return found

    async def deliveries(
        self, *, notice_id: str | None = None, first: int = 20, after: str | None = None
    ) -> DeliveryUncountedConnection:
        """Deliveries of notices, newest first. For admins."""
        found: DeliveryUncountedConnection = await self._read(
            DELIVERIES, {"notice_id": notice_id, "first": first, "after": after}, DeliveryUncountedConnection
        )
        return found

    async def notice_preferences(self) -> NoticePreferences:
        """The caller's notice preferences."""
        found: NoticePreferences = await self._read(NOTICE_PREFERENCES, {}, NoticePreferences)
        return found

    async def orchestrator(self) -> Orchestrator:
        """State of the servers: which one leads, and whether sessions are placed."""
        found: Orchestrator = await self._read(ORCHESTRATOR, {}, Orchestrator)
        return found

    async def what_if(self, input: WhatIfInput) -> WhatIf:
        """What one more session, a drained agent, another policy or more agents would mean for waiting sessions."""
        found: WhatIf = await self._change(WHAT_IF, {"input": input}, WhatIf)
        return found

    async def session_why(self, id: str) -> SessionExplanation | None:
        """
        Why a session waits, and what would help, as far as the caller may do it; null if there is no such session, or
        it ended long ago.
        """
        found: SessionExplanation | None = await self._read(SESSION_WHY, {"id": id}, SessionExplanation | None)
        return found

    async def preview_forecasts(self, inputs: Sequence[CreateSessionInput]) -> tuple[PreviewForecast | Refused, ...]:
        """
        When sessions would start if they were submitted, each of them alone, in the order given. The forecast process
        of the leading server answers, which may take some seconds while the queue is long.
        """
        found: tuple[PreviewForecast | Refused, ...] = await self._change_each(
            PREVIEW_FORECASTS, {"inputs": inputs}, PreviewForecast
        )
        return found

    async def preview_session(self, input: CreateSessionInput) -> SessionPreview:
        """Preview the scheduling of a session without submitting it."""
        found: SessionPreview = await self._change(PREVIEW_SESSION, {"input": input}, SessionPreview)
        return found

    async def session_files(
        self, id: str, *, rank: int = 0, first: int = 100, after: str | None = None
    ) -> SessionFiles:
        """The files below RESULT_DIR of a session that runs or has ended. For the session's owner and admins."""
        found: SessionFiles = await self._read(
            SESSION_FILES, {"id": id, "rank": rank, "first": first, "after": after}, SessionFiles
        )
        return found

    async def secrets(self) -> tuple[Secret, ...]:
        """The caller's secrets by name, without their values."""
        found: tuple[Secret, ...] = await self._read(SECRETS, {}, tuple[Secret, ...])
        return found

    async def session_log(
        self, id: str, *, rank: int = 0, attempt: int | None = None, offset: int = 0, bytes_max: int = 65536
    ) -> SessionLog:
        """
        Output of one rank so far, or a piece of it, without waiting; `session_logs` follows it. For the session's owner
        and admins.
        """
        found: SessionLog = await self._read(
            SESSION_LOG,
            {"id": id, "rank": rank, "attempt": attempt, "offset": offset, "bytes_max": bytes_max},
            SessionLog,
        )
        return found

    async def session_steps(
        self, id: str, *, first: int = 20, after: str | None = None
    ) -> SessionStepUncountedConnection:
        """State changes of a session, newest first, as far back as the event log is kept."""
        found: SessionStepUncountedConnection = await self._read(
            SESSION_STEPS, {"id": id, "first": first, "after": after}, SessionStepUncountedConnection
        )
        return found

    async def idle_behind_quotas(self) -> IdleBehindQuotas | None:
        """GPUs that are idle while quotas hold waiting sessions back; null if there are none."""
        found: IdleBehindQuotas | None = await self._read(IDLE_BEHIND_QUOTAS, {}, IdleBehindQuotas | None)
        return found

    async def queue_statistics(self) -> QueueStatistics:
        """Length of the queue, waiting times and throughput."""
        found: QueueStatistics = await self._read(QUEUE_STATISTICS, {}, QueueStatistics)
        return found

    async def observed_gpus(self) -> tuple[ObservedGpu, ...]:
        """Who uses which GPU now, by the processes on it, whoever started them."""
        found: tuple[ObservedGpu, ...] = await self._read(OBSERVED_GPUS, {}, tuple[ObservedGpu, ...])
        return found

    async def observed_week(self, *, week: str | None = None) -> ObservedWeek | None:
        """
        GPU-hours by person in a week, whoever started the processes; null if nothing was recorded. Recorded by a server
        in the mode observe or advise.
        """
        found: ObservedWeek | None = await self._read(OBSERVED_WEEK, {"week": week}, ObservedWeek | None)
        return found

    async def session_templates(self) -> tuple[SessionTemplate, ...]:
        """Session templates of the caller and their projects, for operators of all projects; by project and name."""
        found: tuple[SessionTemplate, ...] = await self._read(SESSION_TEMPLATES, {}, tuple[SessionTemplate, ...])
        return found

    async def agents(
        self,
        *,
        filter: AgentFilter | None = None,
        order: AgentOrder = AgentOrder.ID,
        first: int = 20,
        after: str | None = None,
        min_revision: int | None = None,
    ) -> AgentConnection:
        """The agents of the cluster."""
        found: AgentConnection = await self._read(
            AGENTS,
            {"filter": filter, "order": order, "first": first, "after": after, "min_revision": min_revision},
            AgentConnection,
        )
        return found

    async def agent(self, agent_id: str, *, min_revision: int | None = None) -> Agent | None:
        """One agent by its id; null if there is none."""
        found: Agent | None = await self._read(
            AGENT, {"agent_id": agent_id, "min_revision": min_revision}, Agent | None
        )
        return found

    async def sessions(
        self,
        *,
        filter: SessionFilter | None = None,
        order: SessionOrder = SessionOrder.NEWEST,
        first: int = 20,
        after: str | None = None,
        min_revision: int | None = None,
    ) -> SessionConnection:
        """Sessions, including ended ones."""
        found: SessionConnection = await self._read(
            SESSIONS,
            {"filter": filter, "order": order, "first": first, "after": after, "min_revision": min_revision},
            SessionConnection,
        )
        return found

    async def session(self, id: str, *, min_revision: int | None = None) -> Session | None:
        """One session by its id; null if there is none."""
        found: Session | None = await self._read(SESSION, {"id": id, "min_revision": min_revision}, Session | None)
        return found

    async def queue(
        self, *, first: int = 20, after: str | None = None, min_revision: int | None = None
    ) -> QueueEntryConnection:
        """Waiting sessions in scheduling order."""
        found: QueueEntryConnection = await self._read(
            QUEUE, {"first": first, "after": after, "min_revision": min_revision}, QueueEntryConnection
        )
        return found
