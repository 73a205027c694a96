"""Audit queries for operators: changes, holdings of devices, and scheduling passes. Times are microseconds UTC."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import Any, Final, Protocol

from msgspec import Struct
from msgspec.structs import asdict

from aliquot.service.access import check_role
from aliquot.service.ledger.entries import PassEntry
from aliquot.service.operators import OperatorCommands
from aliquot.service.ports import Clock
from aliquot.service.state.identities import Identities
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.views.pagination import cursor_page_of, number_before
from aliquot.service.views.terms import microseconds, microseconds_or_none, moment, moment_or_none
from aliquot_schema.errors import InvalidRequest, Unavailable
from aliquot_schema.identity.accounts import Role
from aliquot_schema.ids import KeyId, SlotName
from aliquot_schema.requests import Caller, PageRequest
from aliquot_schema.resources.slots import format_amount
from aliquot_schema.views.audit import (
    AuditFilter,
    ChangedFieldView,
    ChangeView,
    CursorPage,
    HoldingView,
    LedgerPassView,
    RecordCheckView,
)
from aliquot_schema.views.templates import PERSONAL

HIDDEN: Final = "***"
DEVICES_MAX: Final = 1000
HOLDINGS_MAX: Final = 5000
PERIOD_MAX: Final = timedelta(days=31)


class AuditQuery(Struct, frozen=True, kw_only=True):
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


class Change(Struct, frozen=True, kw_only=True):
    """One event, without environment values and digests of keys."""

    number: int
    at_us: int
    kind: str
    entity_id: str
    actor: str
    """A user, or a part of the server as `system:<part>`."""
    key_id: KeyId | None = None
    """The API key that the user's request came with."""
    request_id: str | None
    pass_number: int | None
    before: Mapping[str, Any] | None
    """Old values of the changed fields; None = the record was created, it is an action, or its earlier events were
    removed by retention."""
    after: Mapping[str, Any]
    """New values of the same fields; all fields when `before` is None."""


class Holding(Struct, frozen=True, kw_only=True):
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


class RecordCounts(Struct, frozen=True, kw_only=True):
    """Result of a verification of the record; see `RecordCheckView`."""

    faults: tuple[str, ...] = ()
    events: int = 0
    passes: int = 0
    unwritten: int = 0
    holdings: int = 0
    archives: int = 0
    archived_rows: int = 0
    removed_rows: int = 0


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

    async def held_between(
        self, device_id: str, *, first_us: int, last_us: int, before: int | None, limit: int
    ) -> tuple[Holding, ...]:
        """The newest holdings of a device between two moments, both included, in the order of the grants.

        Args:
            before: only holdings granted by events with lower numbers.
        Raises:
            StoreUnavailable: as `held_at`.
        """

    async def verified(self) -> RecordCounts:
        """Verify the hash chains, the archives and the table of holdings, beside other reads and writes."""

    async def held_over(
        self, device_ids: Sequence[str], *, first_us: int, last_us: int | None, limit: int
    ) -> tuple[Holding, ...]:
        """The newest holdings of devices in a period, in the order of the grants; without archives.

        Args:
            last_us: the end of the period, included; None = until now.
        """

    async def passes(self, *, before: int | None, limit: int) -> tuple[PassEntry, ...]:
        """The newest passes in the ledger below a number, oldest first, without their checkpoints."""


def change_view(change: Change, *, people: Identities, shows_commands: bool) -> ChangeView:
    """One change. Without `shows_commands` command lines, personal templates and e-mail addresses are hidden."""
    key = None if change.key_id is None else people.keys.get(change.key_id)
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
        api_key=change.key_id if key is None else key.name,
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
    spec, facts = fields.get("spec"), fields.get("facts")
    if isinstance(spec, dict) and "argv" in spec:
        hidden["spec"] = {**spec, "argv": HIDDEN}
        if spec.get("preflight") is not None:
            hidden["spec"]["preflight"] = {**spec["preflight"], "argv": HIDDEN}
    if isinstance(facts, dict) and "fields" in facts and facts.get("project") == PERSONAL:
        hidden["facts"] = {**facts, "fields": HIDDEN}
    return {**fields, **hidden}


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


CHECK_WAIT_S: Final = 20.0
"""Longest wait of a request for the end of a verification."""


class RecordChecks:
    """Verifications of the record, one at a time: it may read for minutes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_us = 0
        self._ended_us: int | None = None
        self._task: asyncio.Task[RecordCounts] | None = None

    async def result(self, store: AuditStore, *, since_us: int | None) -> RecordCheckView:
        """The verification that runs, or the last one if it started at `since_us` or later; else starts one.

        Waits `CHECK_WAIT_S` for its end.

        Raises:
            StoreUnavailable: the database or an archive cannot be read.
        """
        is_old = since_us is None or self._started_us < since_us
        if self._task is None or (self._task.done() and is_old):
            self._started_us, self._ended_us = self._clock.now_us(), None
            self._task = asyncio.create_task(self._run(store), name="verification of the record")
        await asyncio.wait({self._task}, timeout=CHECK_WAIT_S)
        if not self._task.done():
            return RecordCheckView(started_at=moment(self._started_us), ended_at=None)
        counts = self._task.result()
        return RecordCheckView(
            started_at=moment(self._started_us), ended_at=moment_or_none(self._ended_us), **asdict(counts)
        )

    async def _run(self, store: AuditStore) -> RecordCounts:
        try:
            return await store.verified()
        finally:
            self._ended_us = self._clock.now_us()


class Auditing(OperatorCommands):
    """Audit queries. Every server answers them."""

    def __init__(self, *, state: State, journal: Journal, clock: Clock, store: AuditStore | None = None) -> None:
        """
        Args:
            store: None = this server keeps no record.
        """
        super().__init__(state=state, journal=journal, clock=clock)
        self._store = store
        self._checks = RecordChecks(clock)

    async def audit(self, caller: Caller, where: AuditFilter, page: PageRequest) -> CursorPage[ChangeView]:
        """Changes, newest first. Only admins see command lines and personal templates; environment values are never
        shown.

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
        view = partial(change_view, people=self._state.people, shows_commands=caller.role >= Role.ADMIN)
        return cursor_page_of(found, page, number=attrgetter("number"), show=view)

    async def held_by(self, caller: Caller, device_id: str, at: datetime) -> tuple[HoldingView, ...]:
        """Holdings of a device at a moment.

        Raises:
            Forbidden: the caller is not an operator.
        """
        check_role(caller, Role.OPERATOR)
        found = await self._record().held_at(device_id, microseconds(at))
        return tuple(map(holding_view, found))

    async def device_holdings(
        self, caller: Caller, device_id: str, *, since: datetime | None, until: datetime | None, page: PageRequest
    ) -> CursorPage[HoldingView]:
        """Holdings of a device in a period, newest grants first. Without `since` from the first one, without `until`
        to the present.

        Raises:
            Forbidden: the caller is not an operator.
            InvalidRequest: the cursor is not valid.
        """
        check_role(caller, Role.OPERATOR)
        found = await self._record().held_between(
            device_id,
            first_us=0 if since is None else microseconds(since),
            last_us=self._clock.now_us() if until is None else microseconds(until),
            before=number_before(page),
            limit=page.first + 1,
        )
        return cursor_page_of(found, page, number=attrgetter("granted_event"), show=holding_view)

    async def record_check(self, caller: Caller, *, since: datetime | None) -> RecordCheckView:
        """See `RecordChecks.result`.

        Raises:
            Forbidden: the caller is not an operator.
        """
        check_role(caller, Role.OPERATOR)
        return await self._checks.result(self._record(), since_us=microseconds_or_none(since))

    async def device_timeline(
        self, caller: Caller, device_ids: tuple[str, ...], *, since: datetime, until: datetime | None
    ) -> tuple[HoldingView, ...]:
        """Holdings of devices in a period, the newest `HOLDINGS_MAX`. Visible to all users, like today's holders.

        Raises:
            InvalidRequest: more than `DEVICES_MAX` devices; the period ends before it begins or exceeds `PERIOD_MAX`.
        """
        if len(device_ids) > DEVICES_MAX:
            raise InvalidRequest(f"device_ids: at most {DEVICES_MAX} devices", field="device_ids")
        if until is not None and not timedelta() <= until - since <= PERIOD_MAX:
            message = f"until: the period must be positive and at most {PERIOD_MAX.days} days"
            raise InvalidRequest(message, field="until")
        last_us = None if until is None else microseconds(until)
        found = await self._record().held_over(
            device_ids, first_us=microseconds(since), last_us=last_us, limit=HOLDINGS_MAX
        )
        return tuple(map(holding_view, found))

    async def ledger_passes(self, caller: Caller, page: PageRequest) -> CursorPage[LedgerPassView]:
        """Passes with new decisions, newest first.

        Raises:
            Forbidden: the caller is not an operator.
            InvalidRequest: the cursor is not valid.
        """
        check_role(caller, Role.OPERATOR)
        found = await self._record().passes(before=number_before(page), limit=page.first + 1)
        return cursor_page_of(found, page, number=attrgetter("number"), show=pass_view)

    def _record(self) -> AuditStore:
        if self._store is None:
            raise Unavailable("this server keeps no audit record")
        return self._store
