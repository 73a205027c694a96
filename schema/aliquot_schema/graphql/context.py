"""Resolver context: the ports through which resolvers call the server, and the context they share.

The server's `service` package implements the ports. Mutating methods return after the commit. Methods that a caller's
role does not permit raise `Forbidden`; see `identity.access` for the roles.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from aliquot_schema.alerts import AlertRule
from aliquot_schema.identity.secrets import SecretChanged, SecretDeleted, SecretView
from aliquot_schema.quotas import QuotaScope
from aliquot_schema.requests import AgentFilter as AgentFilter
from aliquot_schema.requests import Caller, PageRequest
from aliquot_schema.requests import NewSession as NewSession
from aliquot_schema.requests import SessionChanged as SessionChanged
from aliquot_schema.requests import SessionFilter as SessionFilter
from aliquot_schema.requests import SessionsCreated as SessionsCreated
from aliquot_schema.views.accounts import (
    ApiKeyCreated,
    ApiKeyRevoked,
    ApiKeyView,
    MeView,
    NewApiKey,
    NewUser,
    UserChanged,
    UserChanges,
    UserView,
)
from aliquot_schema.views.admin import (
    AgentChanged,
    ClusterPoolView,
    NewQuota,
    PolicyChanged,
    PolicyChanges,
    PolicyView,
    ProjectView,
    QuotaChanged,
    QuotaView,
    UsageView,
)
from aliquot_schema.views.alerts import (
    AlertState,
    AlertView,
    DeliveryView,
    NoticePreferencesChanged,
    NoticePreferencesChanges,
    NoticePreferencesView,
    NoticeRuleChanged,
    NoticeRuleChanges,
    NoticeRuleView,
    ReceiverView,
    TrialSent,
)
from aliquot_schema.views.audit import AuditFilter, ChangeView, CursorPage, HoldingView, LedgerPassView, SessionStepView
from aliquot_schema.views.live import DeviceUpdateView, SessionLogView, SessionUpdateView, StreamPosition
from aliquot_schema.views.preview import ExternalAllocationView, NewExternalAllocation, SessionPreview
from aliquot_schema.views.server import ALONE, DatabaseCopy, ExaminationView, OrchestratorView, RescanView
from aliquot_schema.views.server import RayView as RayView
from aliquot_schema.views.sessions import AgentView, LogChunkView, Page, QueueEntryView, QueueUpdateView, SessionView
from aliquot_schema.views.statistics import (
    ClusterView,
    HistoryView,
    IdleBehindQuotasView,
    QueueStatisticsView,
    UsageBy,
    UsageHistoryView,
)


class AuditPort(Protocol):
    """Audit records, for operators."""

    async def audit(self, caller: Caller, where: AuditFilter, page: PageRequest) -> CursorPage[ChangeView]:
        """Changes, newest first."""

    async def held_by(self, caller: Caller, device_id: str, at: datetime) -> tuple[HoldingView, ...]:
        """Holdings of a device at a moment, in order of their grants."""

    async def ledger_passes(self, caller: Caller, page: PageRequest) -> CursorPage[LedgerPassView]:
        """Recorded scheduling passes, newest first."""


class HistoryPort(Protocol):
    """Time series.

    Raises:
        InvalidRequest: the period ends before it begins, or has too many points.
        Unavailable: the measurements cannot be read.
    """

    async def device_history(
        self,
        caller: Caller,
        agent_id: str,
        *,
        device_ids: tuple[str, ...] | None,
        since: datetime | None,
        until: datetime | None,
        points: int,
    ) -> HistoryView:
        """Measurements of an agent's accelerators. Raises NotFound for an agent that never existed."""

    async def queue_history(
        self, caller: Caller, *, since: datetime | None, until: datetime | None, points: int
    ) -> HistoryView:
        """Series of the queue and of the cluster's GPUs."""

    async def session_history(self, caller: Caller, session_id: str, *, points: int) -> HistoryView:
        """Measurements of a session's devices while it held them.

        Raises:
            NotFound: there is no such session.
            Forbidden: the caller may not see it.
        """

    async def usage_history(
        self, caller: Caller, *, by: UsageBy, since: datetime | None, until: datetime | None, step: float | None
    ) -> UsageHistoryView:
        """Usage per step."""


class AlertsPort(Protocol):
    """Alerts and notices."""

    async def alerts(self, caller: Caller, state: AlertState | None, page: PageRequest) -> CursorPage[AlertView]:
        """Newest first."""

    def notice_rules(self, caller: Caller) -> tuple[NoticeRuleView, ...]:
        """All rules. For operators."""

    async def set_notice_rule(
        self, caller: Caller, changes: NoticeRuleChanges, expected_version: int | None
    ) -> NoticeRuleChanged:
        """For admins."""

    async def mute_notice_rule(self, caller: Caller, rule: AlertRule, seconds: float) -> NoticeRuleChanged:
        """For operators."""

    def notice_receivers(self, caller: Caller) -> tuple[ReceiverView, ...]:
        """For admins."""

    async def deliveries(self, caller: Caller, notice_id: str | None, page: PageRequest) -> CursorPage[DeliveryView]:
        """Newest first. For admins."""

    async def send_test_notice(self, caller: Caller, receiver: str) -> TrialSent:
        """For admins."""

    def notice_preferences(self, caller: Caller) -> NoticePreferencesView:
        """The caller's own."""

    async def set_notice_preferences(
        self, caller: Caller, changes: NoticePreferencesChanges
    ) -> NoticePreferencesChanged:
        """The caller's own."""


class PolicyPort(Protocol):
    """The policy. All users may read it; operators may change it."""

    def policy(self, caller: Caller) -> PolicyView: ...

    async def update_policy(
        self, caller: Caller, changes: PolicyChanges, expected_version: int | None
    ) -> PolicyChanged: ...


class PausePort(Protocol):
    """Stop and start of scheduling, for operators. Both return the revision."""

    async def stop_orchestrator(self, caller: Caller, note: str | None) -> int: ...

    async def start_orchestrator(self, caller: Caller, note: str | None) -> int: ...


class QuotasPort(Protocol):
    """Quotas and usage. All users may read them; operators may change quotas."""

    def quotas(self, caller: Caller) -> tuple[QuotaView, ...]: ...

    def usage(self, caller: Caller, *, user: str | None, project: str | None) -> tuple[UsageView, ...]: ...

    async def set_quota(self, caller: Caller, asked: NewQuota, expected_version: int | None) -> QuotaChanged: ...

    async def remove_quota(
        self, caller: Caller, scope: QuotaScope, name: str, expected_version: int | None
    ) -> QuotaChanged: ...


class AgentCommandsPort(Protocol):
    """Commands on agents, for operators."""

    async def drain_agent(self, caller: Caller, agent_id: str, *, note: str | None, evicts: bool) -> AgentChanged: ...

    async def resume_agent(self, caller: Caller, agent_id: str) -> AgentChanged: ...

    async def set_agent_schedulable(
        self, caller: Caller, agent_id: str, *, schedulable: bool, note: str | None
    ) -> AgentChanged: ...

    async def label_agent(self, caller: Caller, agent_id: str, labels: Sequence[tuple[str, str]]) -> AgentChanged: ...

    async def assign_agent_pool(self, caller: Caller, agent_id: str, pool: str) -> AgentChanged: ...

    async def release_lost_agent(self, caller: Caller, agent_id: str) -> AgentChanged: ...


class DoctorPort(Protocol):
    """Inspection of agents, for operators."""

    async def examine(self, caller: Caller) -> ExaminationView: ...

    async def rescan(self, caller: Caller, agent_id: str | None) -> RescanView:
        """Re-read the resource specs of an agent's kernels from its files. Raises NotFound, Unavailable."""


class BackupsPort(Protocol):
    """Online copies of the database, for operators."""

    async def copy_database(self, caller: Caller) -> DatabaseCopy: ...


class AdministrationPort(Protocol):
    """Administration, by subject."""

    @property
    def policy(self) -> PolicyPort: ...

    @property
    def pause(self) -> PausePort: ...

    @property
    def quotas(self) -> QuotasPort: ...

    @property
    def agents(self) -> AgentCommandsPort: ...

    @property
    def doctor(self) -> DoctorPort: ...

    @property
    def backups(self) -> BackupsPort: ...

    @property
    def audit(self) -> AuditPort: ...

    @property
    def alerts(self) -> AlertsPort: ...


class SecretsPort(Protocol):
    """The caller's own secrets. Values are never returned."""

    async def secrets(self, caller: Caller) -> tuple[SecretView, ...]: ...

    async def set_secret(self, caller: Caller, name: str, value: str) -> SecretChanged:
        """Raises InvalidRequest, LimitExceeded, Forbidden, Unavailable."""

    async def delete_secret(self, caller: Caller, name: str) -> SecretDeleted:
        """Raises NotFound, Forbidden, Unavailable."""


class AccountsPort(SecretsPort, Protocol):
    """Accounts. For admins, except `me` and the caller's own keys; operators may list users."""

    def me(self, caller: Caller) -> MeView: ...

    def users(self, caller: Caller) -> tuple[UserView, ...]: ...

    def api_keys(self, caller: Caller, *, user: str | None) -> tuple[ApiKeyView, ...]: ...

    async def create_user(self, caller: Caller, asked: NewUser) -> UserChanged: ...

    async def update_user(
        self, caller: Caller, name: str, changes: UserChanges, expected_version: int | None
    ) -> UserChanged: ...

    async def disable_user(self, caller: Caller, name: str, expected_version: int | None) -> UserChanged: ...

    async def create_api_key(self, caller: Caller, asked: NewApiKey) -> ApiKeyCreated: ...

    async def revoke_api_key(self, caller: Caller, key_id: str) -> ApiKeyRevoked: ...

    async def end_sign_in(self, caller: Caller) -> None: ...


class QueriesPort(Protocol):
    """Queries. All of one request are answered at the same revision."""

    async def at_revision(self, min_revision: int | None) -> int:
        """Wait until the state includes an event number, and return the current one.

        Raises:
            Unavailable: the wait timed out.
        """

    def agents(self, caller: Caller, where: AgentFilter, order: str, page: PageRequest) -> Page[AgentView]:
        """`order` is one of `AgentOrder`. Raises InvalidRequest for a bad cursor."""

    def agent(self, caller: Caller, agent_id: str) -> AgentView | None: ...

    def cluster(self, caller: Caller, ray: RayView | None) -> ClusterView:
        """Totals of all reachable agents."""

    def pools(self, caller: Caller, *, name: str | None) -> tuple[ClusterPoolView, ...]:
        """All pools, or the one of this name; empty if there is none."""

    def projects(self, caller: Caller, *, name: str | None) -> tuple[ProjectView, ...]:
        """All known projects, or the one of this name."""

    def queue_statistics(self, caller: Caller) -> QueueStatisticsView:
        """The queue now, and its throughput in the last hour."""

    def idle_behind_quotas(self, caller: Caller) -> IdleBehindQuotasView | None:
        """None if no GPUs are idle behind quotas."""

    async def sessions(self, caller: Caller, where: SessionFilter, order: str, page: PageRequest) -> Page[SessionView]:
        """`order` is one of `SessionOrder`. Raises InvalidRequest for a bad cursor."""

    async def session(self, caller: Caller, session_id: str) -> SessionView | None: ...

    async def session_steps(self, caller: Caller, session_id: str, page: PageRequest) -> CursorPage[SessionStepView]:
        """Newest first; empty for an unknown session. Raises InvalidRequest for a bad cursor."""

    async def preview_session(self, caller: Caller, request: NewSession) -> SessionPreview:
        """Raises the errors of `SessionsPort.create_session`; changes nothing."""

    def queue(self, caller: Caller, page: PageRequest) -> Page[QueueEntryView]:
        """Pending sessions in scheduling order. Raises InvalidRequest for a bad cursor."""


class SessionsPort(Protocol):
    """Mutations of sessions. Each raises the expected errors of `aliquot_schema.errors`."""

    async def create_session(self, caller: Caller, request: NewSession) -> SessionChanged: ...

    async def create_sessions(self, caller: Caller, requests: Sequence[NewSession]) -> SessionsCreated: ...

    async def hold_session(self, caller: Caller, session_id: str, expected_version: int | None) -> SessionChanged: ...

    async def release_session(
        self, caller: Caller, session_id: str, expected_version: int | None
    ) -> SessionChanged: ...

    async def retry_session(self, caller: Caller, session_id: str, expected_version: int | None) -> SessionChanged: ...

    async def cancel_session(self, caller: Caller, session_id: str, expected_version: int | None) -> SessionChanged: ...

    async def update_session_priority(
        self, caller: Caller, session_id: str, priority: str, expected_version: int | None
    ) -> SessionChanged: ...


class SubscriptionsPort(Protocol):
    """Subscriptions, from now on or after a known number."""

    def place(self, stream: str, after: int | None) -> StreamPosition:
        """Start position in a numbered stream for a subscriber that has the items up to `after`.

        Raises:
            InvalidRequest: the number is above the newest.
        """

    def queue_updates(self, caller: Caller, after: int | None) -> AsyncIterator[QueueUpdateView]:
        """Every committed change of any session, in order, without gaps or repeats.

        Raises:
            InvalidRequest: the number is above the newest event, or past retention.
        """

    def session_updates(self, caller: Caller, session_id: str, after: int | None) -> AsyncIterator[SessionUpdateView]:
        """A snapshot of a session unless `after` is given, then every change of it and of its kernels.

        Raises:
            InvalidRequest: as in `queue_updates`.
            NotFound: there is no such session.
        """

    def device_updates(self, caller: Caller, after: int | None) -> AsyncIterator[DeviceUpdateView]:
        """A snapshot of all devices, or the changes after a number; then changes as they happen."""

    def events(self, caller: Caller, kinds: Sequence[str], after: int | None) -> AsyncIterator[ChangeView]:
        """The event log as it grows, of some kinds, or all. For operators.

        Raises:
            InvalidRequest: as in `queue_updates`.
        """

    def session_logs(
        self, caller: Caller, session_id: str, *, rank: int, attempt: int | None, offset: int
    ) -> AsyncIterator[LogChunkView]:
        """The output of one rank, followed until its end. Waits for a session that has not started.

        Raises:
            NotFound: no such session, rank or attempt.
        """

    async def session_log(
        self, caller: Caller, session_id: str, *, rank: int, attempt: int | None, offset: int, bytes_max: int
    ) -> SessionLogView:
        """A piece of one rank's output so far; a negative offset counts from the end.

        Raises:
            NotFound: as in `session_logs`.
            Unavailable: the agent is unreachable.
        """


class ExternalAllocationsPort(Protocol):
    """External allocations: GPUs for processes that Aliquot does not start."""

    async def allocate(self, caller: Caller, asked: NewExternalAllocation) -> ExternalAllocationView:
        """Allocate immediately or fail. Raises NotPlaced, IdempotencyMismatch and the errors of `create_session`."""

    async def release(self, caller: Caller, job_id: str) -> ExternalAllocationView:
        """Raises NotFound."""

    def gpu_slots(self, count: str) -> Sequence[tuple[str, str]]:
        """Slots for a number of GPUs. Raises InvalidAmount."""


@dataclass(slots=True, kw_only=True)
class Context:
    """Context of a request: the caller and the server's ports."""

    caller: Caller
    reader: QueriesPort
    writer: SessionsPort
    watcher: SubscriptionsPort
    admin: AdministrationPort
    accounts: AccountsPort
    ray: Callable[[], RayView | None] = lambda: None
    """Current state of Ray; None = not used."""
    orchestrator: Callable[[], OrchestratorView] = lambda: ALONE
    """Current state of the servers."""
    external_allocations: ExternalAllocationsPort | None = None
    """None = external allocations are disabled."""
    historian: HistoryPort | None = None
    """None = no history is stored."""
