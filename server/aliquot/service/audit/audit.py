"""Audit queries for operators: changes, holdings of devices, and scheduling passes. Times are microseconds UTC."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any, Final, Protocol

from aliquot.service.access import check_role
from aliquot.service.ledger.entries import PassEntry
from aliquot.service.operators import OperatorCommands
from aliquot.service.ports import Clock
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.views.pagination import number_before, reel_of
from aliquot.service.views.terms import microseconds, microseconds_or_none, moment, moment_or_none
from aliquot_schema.errors import Unavailable
from aliquot_schema.identity.accounts import Role
from aliquot_schema.ids import SlotName
from aliquot_schema.requests import Caller, PageRequest
from aliquot_schema.resources.slots import format_amount
from aliquot_schema.views.audit import (
    AuditFilter,
    ChangedFieldView,
    ChangeView,
    CursorPage,
    HoldingView,
    LedgerPassView,
)

HIDDEN: Final = "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """Filter of changes. None does not filter."""

    entity_id: str | None = None
    actor: str | None = None
    kind: str | None = None
    """`session.queued`, or only the part before the point."""
    first_us: int | None = None
    last_us: int | None = None
    people_only: bool = False
    """Leave out changes made by the server itself."""
    before: int | None = None
    """Only numbers below this one."""
    after: int = 0
    """Only numbers above this one."""
    kinds: tuple[str, ...] = ()
    """Each like `kind`; one of them has to match."""
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One event, without environment values and digests of keys."""

    number: int
    at_us: int
    kind: str
    entity_id: str
    actor: str
    request_id: str | None
    pass_number: int | None
    before: Mapping[str, Any] | None
    """Old values of the changed fields; None = the record was created, or its earlier events were removed by
    retention."""
    after: Mapping[str, Any]
    """New values of the same fields; all fields when `before` is None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """An amount of one slot of one device, in the slot's base unit, held by one lease."""

    lease_id: str
    device_id: str
    slot: str
    kind: str
    agent_id: str
    session_id: str | None
    owner: str
    amount: int
    from_us: int
    until_us: int | None
    """Planned release."""
    ended_us: int | None
    """Actual release."""
    evidence: str | None
    pass_number: int | None
    granted_event: int
    ended_event: int | None
    preempted_us: int | None
    preempted_by: str | None
    preempted_pass: int | None


class AuditStore(Protocol):
    """Audit record in the database. Every method may raise `StoreUnavailable`."""

    async def changes(self, query: AuditQuery) -> tuple[Change, ...]:
        """The newest changes, oldest first."""

    async def held_at(self, device_id: str, at_us: int) -> tuple[Holding, ...]:
        """Holdings of a device at a moment, in the order of the grants, from the whole log and its archives.

        Raises:
            StoreUnavailable: also when a needed archive cannot be read; the message gives the time from which on no
                archive
                is needed.
        """

    async def passes(self, *, before: int | None, limit: int) -> tuple[PassEntry, ...]:
        """The newest passes in the ledger below a number, oldest first, without their checkpoints."""


def change_view(change: Change, *, shows_commands: bool) -> ChangeView:
    """One change. Without `shows_commands` command lines and e-mail addresses are hidden."""
    before = None if change.before is None else _redacted(change.before, shows_commands=shows_commands)
    after = _redacted(change.after, shows_commands=shows_commands)
    fields = [
        ChangedFieldView(name=name, before=None if before is None else _text(before.get(name)), after=_text(value))
        for name, value in after.items()
    ]
    return ChangeView(
        number=change.number,
        at=moment(change.at_us),
        kind=change.kind,
        entity_id=change.entity_id,
        actor=change.actor,
        request_id=change.request_id,
        pass_number=change.pass_number,
        fields=tuple(fields),
    )


def holding_view(held: Holding) -> HoldingView:
    """A holding with times and amounts for people."""
    return HoldingView(
        device_id=held.device_id,
        slot=held.slot,
        amount=format_amount(SlotName(held.slot), held.amount),
        kind=held.kind,
        lease_id=held.lease_id,
        agent_id=held.agent_id,
        session_id=held.session_id,
        user=held.owner,
        since=moment(held.from_us),
        until=moment_or_none(held.ended_us),
        evidence=held.evidence,
        pass_number=held.pass_number,
        preempted_at=moment_or_none(held.preempted_us),
        preempted_by=held.preempted_by,
    )


def pass_view(entry: PassEntry) -> LedgerPassView:
    """A pass with its decisions by session."""
    return LedgerPassView(
        number=entry.number,
        at=moment(entry.now_us),
        event_number=entry.revision,
        epoch=entry.epoch,
        code_version=entry.code_version,
        lost_before=entry.lost,
        placed=tuple(placement.session_id for placement in entry.plan.placements),
        preempted=tuple(eviction.session_id for eviction in entry.plan.evictions),
        failed=tuple(entry.plan.failures),
    )


def _redacted(fields: Mapping[str, Any], *, shows_commands: bool) -> Mapping[str, Any]:
    if shows_commands:
        return fields
    hidden: dict[str, Any] = {} if fields.get("email") is None else {"email": HIDDEN}
    spec = fields.get("spec")
    if isinstance(spec, dict) and "argv" in spec:
        hidden["spec"] = {**spec, "argv": HIDDEN}
    return {**fields, **hidden}


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class Auditing(OperatorCommands):
    """Audit queries. Every server answers them."""

    def __init__(self, *, state: State, journal: Journal, clock: Clock, store: AuditStore | None = None) -> None:
        """
        Args:
            store: None = this server keeps no record.
        """
        super().__init__(state=state, journal=journal, clock=clock)
        self._store = store

    async def audit(self, caller: Caller, where: AuditFilter, page: PageRequest) -> CursorPage[ChangeView]:
        """Changes, newest first. Only admins see command lines; environment values are never shown.

        Raises:
            Forbidden: the caller is not an operator.
            InvalidRequest: the cursor is not valid.
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
        view = partial(change_view, shows_commands=caller.role >= Role.ADMIN)
        return reel_of(found, page, number=attrgetter("number"), show=view)

    async def held_by(self, caller: Caller, device_id: str, at: datetime) -> tuple[HoldingView, ...]:
        """Holdings of a device at a moment.

        Raises:
            Forbidden: the caller is not an operator.
        """
        check_role(caller, Role.OPERATOR)
        found = await self._record().held_at(device_id, microseconds(at))
        return tuple(map(holding_view, found))

    async def ledger_passes(self, caller: Caller, page: PageRequest) -> CursorPage[LedgerPassView]:
        """Passes with new decisions, newest first.

        Raises:
            Forbidden: the caller is not an operator.
            InvalidRequest: the cursor is not valid.
        """
        check_role(caller, Role.OPERATOR)
        found = await self._record().passes(before=number_before(page), limit=page.first + 1)
        return reel_of(found, page, number=attrgetter("number"), show=pass_view)

    def _record(self) -> AuditStore:
        if self._store is None:
            raise Unavailable("this server keeps no audit record")
        return self._store
