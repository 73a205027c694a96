"""Ports of administration and accounts: what resolvers need from the services that change how the cluster is run."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from aliquot_schema.alerts import AlertRule
from aliquot_schema.identity.secrets import SecretChanged, SecretDeleted, SecretView
from aliquot_schema.quotas import QuotaScope
from aliquot_schema.requests import Caller, NewBacktest, NewTuning, PageRequest
from aliquot_schema.views.accounts import (
    ApiKeyCreated,
    ApiKeyRevoked,
    ApiKeyView,
    CalendarFeedView,
    MeView,
    NewApiKey,
    NewUser,
    UserChanged,
    UserChanges,
    UserView,
)
from aliquot_schema.views.admin import (
    AgentChanged,
    NewQuota,
    PolicyChanged,
    PolicyChanges,
    PolicyView,
    ProjectDeleted,
    QuotaChanged,
    QuotaUseView,
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
    TestNoticeSent,
)
from aliquot_schema.views.audit import AuditFilter, ChangeView, CursorPage, HoldingView, LedgerPassView, RecordCheckView
from aliquot_schema.views.backtests import BacktestView
from aliquot_schema.views.billing import DocumentFormat, FairShareView, StatementView
from aliquot_schema.views.server import DatabaseCopy, ExaminationView, RescanView


class AuditPort(Protocol):
    """Audit records, for operators."""

    async def audit(self, caller: Caller, where: AuditFilter, page: PageRequest) -> CursorPage[ChangeView]:
        """Changes, newest first."""

    async def held_by(self, caller: Caller, device_id: str, at: datetime) -> tuple[HoldingView, ...]:
        """Holdings of a device at a moment, in order of their grants."""

    async def device_holdings(
        self, caller: Caller, device_id: str, *, since: datetime | None, until: datetime | None, page: PageRequest
    ) -> CursorPage[HoldingView]:
        """Holdings of a device in a period, newest grants first."""

    async def record_check(self, caller: Caller, *, since: datetime | None) -> RecordCheckView:
        """The verification that started at `since` or later, or that runs; else starts one."""

    async def device_timeline(
        self, caller: Caller, device_ids: tuple[str, ...], *, since: datetime, until: datetime | None
    ) -> tuple[HoldingView, ...]:
        """Holdings of devices in a period, in order of their grants.

        Raises:
            InvalidRequest: too many devices, or the period ends before it begins or is too long.
        """

    async def ledger_passes(self, caller: Caller, page: PageRequest) -> CursorPage[LedgerPassView]:
        """Recorded scheduling passes, newest first."""


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

    async def send_test_notice(self, caller: Caller, receiver: str) -> TestNoticeSent:
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

    def quota_use(self, caller: Caller) -> tuple[QuotaUseView, ...]: ...

    def usage(self, caller: Caller, *, user: str | None, project: str | None) -> tuple[UsageView, ...]: ...

    async def set_quota(self, caller: Caller, asked: NewQuota, expected_version: int | None) -> QuotaChanged: ...

    async def remove_quota(
        self, caller: Caller, scope: QuotaScope, name: str, expected_version: int | None
    ) -> QuotaChanged: ...

    async def delete_project(self, caller: Caller, name: str) -> ProjectDeleted: ...


class BillingPort(Protocol):
    """Statements and fair shares. All users may read them.

    Raises:
        InvalidRequest: the month is not one.
        NotFound: the project has no statement for the month.
    """

    def statement(self, caller: Caller, *, project: str, month: str | None) -> StatementView: ...

    def statements(self, caller: Caller, *, month: str | None) -> tuple[StatementView, ...]: ...

    def statement_document(self, caller: Caller, *, project: str, month: str | None, format: DocumentFormat) -> str: ...

    def fair_shares(self, caller: Caller, *, user: str | None, project: str | None) -> tuple[FairShareView, ...]: ...


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


class BacktestsPort(Protocol):
    """Backtests, for operators."""

    async def start_backtest(self, caller: Caller, asked: NewBacktest) -> BacktestView:
        """Raises InvalidRequest, StateConflict, Unavailable."""

    async def cancel_backtest(self, caller: Caller, name: str) -> BacktestView:
        """Raises NotFound."""

    async def start_tuning(self, caller: Caller, asked: NewTuning) -> BacktestView:
        """Raises InvalidRequest, StateConflict, Unavailable."""

    async def apply_tuning(self, caller: Caller, name: str) -> BacktestView:
        """Raises NotFound, StateConflict, VersionConflict."""

    async def backtest(self, caller: Caller, name: str) -> BacktestView | None: ...

    async def backtests(self, caller: Caller) -> Sequence[BacktestView]:
        """Without their reports, the newest first."""


class AdministrationPort(Protocol):
    """Administration, by subject."""

    @property
    def policy(self) -> PolicyPort: ...

    @property
    def pause(self) -> PausePort: ...

    @property
    def quotas(self) -> QuotasPort: ...

    @property
    def billing(self) -> BillingPort: ...

    @property
    def agents(self) -> AgentCommandsPort: ...

    @property
    def doctor(self) -> DoctorPort: ...

    @property
    def backups(self) -> BackupsPort: ...

    @property
    def audit(self) -> AuditPort: ...

    @property
    def backtests(self) -> BacktestsPort: ...

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

    async def renew_calendar_feed(self, caller: Caller) -> CalendarFeedView: ...

    def opens_feed(self, user: str, secret: str) -> bool: ...

    async def end_sign_in(self, caller: Caller, *, name: str = "browser sign-in") -> bool: ...
