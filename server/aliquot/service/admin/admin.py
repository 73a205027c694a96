"""Administration: all operator commands as one class for the API, and online copies of a SQLite database."""

from typing import Protocol

from aliquot.service.admin.policy import Policies, SchedulingPause
from aliquot.service.agents.administration import AgentAdministration
from aliquot.service.agents.doctor import Examination
from aliquot.service.alerts.api import AlertCommands
from aliquot.service.audit.audit import Auditing
from aliquot.service.operators import OperatorCommands
from aliquot.service.quotas import Quotas
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.errors import Forbidden, InvalidRequest
from aliquot_schema.orchestration import Action
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

    file: DatabaseFile | None = None
    """None = the database is PostgreSQL."""

    async def copy_database(self, caller: Caller) -> DatabaseCopy:
        """Copy the database to a new file beside it. The event is committed first, so the copy contains it.

        Raises:
            Forbidden: the caller is no operator.
            InvalidRequest: the database is PostgreSQL.
            StoreUnavailable: the disk is full.
        """
        if caller.role < Role.OPERATOR:
            raise Forbidden("copying the database needs the role operator; ask an operator")
        if self.file is None:
            raise InvalidRequest(
                "the database is PostgreSQL: offline commands can read it while servers run, without a copy", field=None
            )
        path = self.file.copy_path()

        def record(draft: UnitOfWork) -> None:
            draft.put(Action(id="database_copied", facts={"path": path}), "database_copied")

        await self._act(caller, record)
        return await self.file.copy(path)


class Administration(
    Policies, SchedulingPause, Quotas, AgentAdministration, Examination, Backups, Auditing, AlertCommands
):
    """Commands and queries of operators: policy, pause, quotas, agents, doctor, backups, audit and alerts."""
