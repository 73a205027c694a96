"""Auditing: who did what, who held which device when, and what was decided, told to operators."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar

from aliquot.service.auditing.ports import AuditBook, AuditQuery
from aliquot.service.auditing.projection import change_view, holding_view, pass_view
from aliquot.service.office import Office
from aliquot.service.paging import cursor_of, key_of
from aliquot.service.permissions import check_role
from aliquot.service.projection_terms import microseconds, microseconds_or_none
from aliquot_schema.audit_views import AuditFilter, ChangeView, HoldingView, LedgerPassView, Reel
from aliquot_schema.errors import InvalidRequest, Unavailable
from aliquot_schema.requests import Caller, PageRequest
from aliquot_schema.roles import Role

T = TypeVar("T")


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
            before=_before(page),
            limit=page.first + 1,
        )
        found = await self._record().changes(query)
        newest, has_next = _cut(found, page)
        views = tuple(change_view(change, shows_commands=caller.role >= Role.ADMIN) for change in newest)
        return _reel(views, [change.number for change in newest], has_next, page)

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
        found = await self._record().passes(before=_before(page), limit=page.first + 1)
        newest, has_next = _cut(found, page)
        return _reel(tuple(map(pass_view, newest)), [entry.number for entry in newest], has_next, page)

    def _record(self) -> AuditBook:
        if self.book is None:
            raise Unavailable("this server keeps no record")
        return self.book


def _cut(found: Sequence[T], page: PageRequest) -> tuple[list[T], bool]:
    """The newest first, and whether there are more."""
    return list(reversed(found))[: page.first], len(found) > page.first


def _reel(items: tuple[T, ...], numbers: Sequence[int], has_next: bool, page: PageRequest) -> Reel[T]:
    cursors = tuple(cursor_of(str(number)) for number in numbers)
    return Reel(items=items, cursors=cursors, has_next=has_next, has_previous=page.after is not None)


def _before(page: PageRequest) -> int | None:
    if page.after is None:
        return None
    key = key_of(page.after)
    if not key.isdecimal() or len(key) > 18:
        raise InvalidRequest("after: this is no cursor of this list; take one from pageInfo", field="after")
    return int(key)
