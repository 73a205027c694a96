"""Copying the database while the server runs, for whoever wants to look into it with commands."""

from collections.abc import Awaitable, Callable

from aliquot.service.office import Office
from aliquot_schema.doctor_views import DatabaseCopy
from aliquot_schema.errors import Forbidden, InvalidRequest
from aliquot_schema.requests import Caller, Role


class Copying(Office):
    """For servers whose database is a file of their own."""

    copy: Callable[[], Awaitable[DatabaseCopy]] | None = None
    """None = there is no such file."""

    async def copy_database(self, caller: Caller) -> DatabaseCopy:
        """Copy it, as it is now, to a new file beside it.

        Raises:
            Forbidden, InvalidRequest: the database is no file; StoreUnavailable: there is no room for it.
        """
        if caller.role < Role.OPERATOR:
            raise Forbidden("this is for operators; ask one of them")
        if self.copy is None:
            raise InvalidRequest("the database is a PostgreSQL server: commands can look into it as it is", field=None)
        return await self.copy()
