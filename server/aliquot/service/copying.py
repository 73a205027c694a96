"""Copying the database while the server runs, for whoever wants to look into it with commands."""

from typing import Protocol

from aliquot.service.draft import Draft
from aliquot.service.office import Office
from aliquot_schema.actions import Action
from aliquot_schema.doctor_views import DatabaseCopy
from aliquot_schema.errors import Forbidden, InvalidRequest
from aliquot_schema.requests import Caller, Role


class DatabaseFile(Protocol):
    """A database that is a file."""

    def copy_path(self) -> str:
        """Where a copy that is made now goes."""

    async def copy(self, path: str) -> DatabaseCopy:
        """Make it. Raises `StoreUnavailable` where there is no room."""


class Copying(Office):
    """For servers whose database is a file of their own."""

    file: DatabaseFile | None = None
    """None = there is no such file."""

    async def copy_database(self, caller: Caller) -> DatabaseCopy:
        """Copy it, as it is now, to a new file beside it. The log tells of it before: the copy does so, too.

        Raises:
            Forbidden, InvalidRequest: the database is no file; StoreUnavailable: there is no room for it.
        """
        if caller.role < Role.OPERATOR:
            raise Forbidden("this is for operators; ask one of them")
        if self.file is None:
            raise InvalidRequest("the database is a PostgreSQL server: commands can look into it as it is", field=None)
        path = self.file.copy_path()

        def tell(draft: Draft) -> None:
            draft.put(Action(id="database_copied", facts={"path": path}), "database_copied")

        await self._act(caller, tell)
        return await self.file.copy(path)
