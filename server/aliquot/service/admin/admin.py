"""Administration: the parts of the service that operators use, and online copies of a SQLite database."""

from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from aliquot.service.access import check_role
from aliquot.service.admin.policy import Policies, SchedulingPause
from aliquot.service.agents.administration import AgentAdministration
from aliquot.service.agents.doctor import Examination, Inspector
from aliquot.service.alerts.api import AlertCommands
from aliquot.service.alerts.context import NoticeRecords
from aliquot.service.alerts.plan import AlertPlan
from aliquot.service.audit.audit import Auditing, AuditStore
from aliquot.service.backtests.jobs import Backtests
from aliquot.service.backtests.ports import BacktestSources
from aliquot.service.billing.statements import Billing
from aliquot.service.operators import OperatorCommands
from aliquot.service.ports import Clock
from aliquot.service.quotas import Quotas
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.orchestration import Action, OperatingMode
from aliquot_schema.requests import Caller, Role
from aliquot_schema.views.server import DatabaseCopy


class DatabaseFile(Protocol):
    """A SQLite database."""

    def copy_path(self) -> str:
        """Path of a copy made now."""

    async def copy(self, path: str) -> DatabaseCopy:
        """Make the copy. Raises `StoreUnavailable` when the disk is full."""


class Backups(OperatorCommands):
    """Online copies, for servers with a SQLite database."""

    def __init__(self, *, state: State, journal: Journal, clock: Clock, file: DatabaseFile | None = None) -> None:
        """
        Args:
            file: None = the database is PostgreSQL.
        """
        super().__init__(state=state, journal=journal, clock=clock)
        self._file = file

    async def copy_database(self, caller: Caller) -> DatabaseCopy:
        """Copy the database to a new file beside it. The event is committed first, so the copy contains it.

        Raises:
            Forbidden: the caller is no operator.
            InvalidRequest: the database is PostgreSQL.
            StoreUnavailable: the disk is full.
        """
        check_role(caller, Role.OPERATOR)
        if self._file is None:
            raise InvalidRequest(
                "the database is PostgreSQL: offline commands can read it while servers run, without a copy", field=None
            )
        path = self._file.copy_path()

        def record(draft: UnitOfWork) -> None:
            draft.put(Action(id="database_copied", facts={"path": path}), "database_copied")

        await self._act(caller, record)
        return await self._file.copy(path)


class OperatorSources(Struct, frozen=True, kw_only=True):
    """What operators can use beyond the state. A server lacks what is None."""

    file: DatabaseFile | None = None
    """None = the database is PostgreSQL."""
    audit: AuditStore | None = None
    alerts: AlertPlan | None = None
    notices: NoticeRecords | None = None
    """Alerts and deliveries."""
    backtests: BacktestSources | None = None
    inspector: Callable[[], Inspector | None] = lambda: None
    """Returns the inspector of agents of the present term; None while this server does not lead."""
    leader: Callable[[], str | None] = lambda: None
    """Returns the URL of the leader; None when unknown."""


NO_SOURCES: Final = OperatorSources()


class Administration:
    """Commands and queries of operators, by subject."""

    def __init__(self, *, state: State, journal: Journal, clock: Clock, sources: OperatorSources = NO_SOURCES) -> None:
        self.policy: Final = Policies(state=state, journal=journal, clock=clock)
        mode = OperatingMode.ENFORCE if sources.alerts is None else sources.alerts.mode
        self.pause: Final = SchedulingPause(state=state, journal=journal, clock=clock, mode=mode)
        self.quotas: Final = Quotas(state=state, journal=journal, clock=clock)
        self.billing: Final = Billing(state=state, journal=journal, clock=clock)
        self.agents: Final = AgentAdministration(state=state, journal=journal, clock=clock)
        self.doctor: Final = Examination(
            state=state, journal=journal, clock=clock, inspector=sources.inspector, leader=sources.leader
        )
        self.backups: Final = Backups(state=state, journal=journal, clock=clock, file=sources.file)
        self.backtests: Final = Backtests(state=state, journal=journal, clock=clock, sources=sources.backtests)
        self.audit: Final = Auditing(state=state, journal=journal, clock=clock, store=sources.audit)
        self.alerts: Final = AlertCommands(
            state=state, journal=journal, clock=clock, plan=sources.alerts, records=sources.notices
        )
