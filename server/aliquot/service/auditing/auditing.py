"""Auditing: who did what, who held which device when, and what was decided, told to operators."""

from datetime import datetime
from functools import partial
from operator import attrgetter

from aliquot.service.auditing.ports import AuditBook, AuditQuery
from aliquot.service.auditing.projection import change_view, holding_view, pass_view
from aliquot.service.office import Office
from aliquot.service.permissions import check_role
from aliquot.service.projection_terms import microseconds, microseconds_or_none
from aliquot.service.reels import number_before, reel_of
from aliquot_schema.audit_views import AuditFilter, ChangeView, HoldingView, LedgerPassView, Reel
from aliquot_schema.errors import Unavailable
from aliquot_schema.requests import Caller, PageRequest
from aliquot_schema.roles import Role


class Auditing(Office):
    """Of the database; any server can be asked."""

    book: AuditBook | None = None
    """None = what the server runs on keeps no record."""

    async def audit(self, caller: Caller, where: AuditFilter, page: PageRequest) -> Reel[ChangeView]:
        """Changes, the newest first. What sessions run is shown to admins alone, values of environments to nobody.

        Raises:
            Forbidden: for operators; InvalidRequest: the cursor is none.
        """
        check_role(caller, Role.OPERATOR)
        query = AuditQuery(
            entity_id=where.entity_id,
            actor=where.actor,
            kind=where.kind,
            first_us=microseconds_or_none(where.since),
            last_us=microseconds_or_none(where.until),
            people_only=where.people_only,
            before=number_before(page),
            limit=page.first + 1,
        )
        found = await self._record().changes(query)
        show = partial(change_view, shows_commands=caller.role >= Role.ADMIN)
        return reel_of(found, page, number=attrgetter("number"), show=show)

    async def held_by(self, caller: Caller, device_id: str, at: datetime) -> tuple[HoldingView, ...]:
        """Who held a device at a moment.

        Raises:
            Forbidden: for operators.
        """
        check_role(caller, Role.OPERATOR)
        found = await self._record().held_at(device_id, microseconds(at))
        return tuple(map(holding_view, found))

    async def ledger_passes(self, caller: Caller, page: PageRequest) -> Reel[LedgerPassView]:
        """Passes that decided something new, the newest first.

        Raises:
            Forbidden: for operators; InvalidRequest: the cursor is none.
        """
        check_role(caller, Role.OPERATOR)
        found = await self._record().passes(before=number_before(page), limit=page.first + 1)
        return reel_of(found, page, number=attrgetter("number"), show=pass_view)

    def _record(self) -> AuditBook:
        if self.book is None:
            raise Unavailable("this server keeps no record")
        return self.book
