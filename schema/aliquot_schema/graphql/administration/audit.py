"""GraphQL API of the audit log: changes, device holdings and recorded scheduling passes. For operators."""

from datetime import datetime
from typing import Annotated, Generic, TypeVar

import strawberry
from strawberry.types import Info

from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.fields import root_field
from aliquot_schema.graphql.pagination import (
    PAGE_DEFAULT,
    After,
    Edge,
    First,
    PageInfo,
    edges_of,
    page_info_of,
    page_of,
)
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.views.audit import (
    AuditFilter,
    ChangeView,
    CursorPage,
    HoldingView,
    LedgerPassView,
    RecordCheckView,
)

T = TypeVar("T")


@strawberry.type(description="One page of a log, without a total count.")
class UncountedConnection(Generic[T]):
    edges: list[Edge[T]] = strawberry.field(description="The items of this page.")
    page_info: PageInfo = strawberry.field(name="pageInfo", description="Position of this page in its list.")


@strawberry.type(description="Change of one field of a record. Values are JSON text.")
class ChangedField:
    name: str = strawberry.field(description="The field.")
    before: str | None = strawberry.field(
        description="Previous value; null if the change created the record, or the previous state is past retention."
    )
    after: str = strawberry.field(description="New value.")


@strawberry.type(description="A change: one event of the event log.")
class AuditChange:
    number: BigInt = strawberry.field(description="Number of the event; ascending without gaps.")
    at: datetime = strawberry.field(description="When it was committed.")
    kind: str = strawberry.field(description="What happened: `session.queued`, `lease.granted`, ...")
    entity_id: str = strawberry.field(description="Id of the changed object.")
    actor: str = strawberry.field(description="A user, or a part of the server as `system:PART`.")
    api_key: str | None = strawberry.field(
        description="Name of the API key that the user's request came with; null for a sign-in and for the server."
    )
    request_id: str | None = strawberry.field(description="The request that caused it.")
    pass_number: BigInt | None = strawberry.field(description="The scheduling pass that decided it.")
    fields: list[ChangedField] = strawberry.field(
        description="Changed fields; all fields if the change created the record. Values of environment variables are "
        "not shown; commands of sessions are shown to admins only."
    )


@strawberry.type(description="An amount of one slot of one device, held by one lease from grant to release.")
class DeviceHolding:
    device_id: strawberry.ID = strawberry.field(description="The device.")
    slot: str = strawberry.field(description="The slot.")
    amount: str = strawberry.field(description="The amount.")
    kind: str = strawberry.field(description="Kind of the lease.")
    lease_id: strawberry.ID = strawberry.field(description="The lease.")
    agent_id: strawberry.ID = strawberry.field(description="The agent of the grant.")
    session_id: strawberry.ID | None = strawberry.field(description="The session; null for a lease without one.")
    user: str = strawberry.field(description="The holder.")
    since: datetime = strawberry.field(description="When it was granted.")
    until: datetime | None = strawberry.field(description="When it was released; null while it is held.")
    evidence: str | None = strawberry.field(description="Evidence of its end; null while it is held.")
    pass_number: BigInt | None = strawberry.field(description="The scheduling pass that granted it.")
    preempted_at: datetime | None = strawberry.field(description="When it was preempted.")
    preempted_by: str | None = strawberry.field(description="The session it was preempted for, or the cause.")


@strawberry.type(description="A recorded scheduling pass. Passes that repeat earlier decisions are not recorded.")
class LedgerPass:
    number: BigInt = strawberry.field(description="Number of the pass; ascending, also over restarts.")
    at: datetime = strawberry.field(description="When it ran.")
    event_number: BigInt = strawberry.field(description="The last event included in its snapshot.")
    epoch: BigInt = strawberry.field(description="Epoch of the leader.")
    code_version: str = strawberry.field(
        description="Version of the scheduling code; a replay is only exact with the same version."
    )
    lost_before: int = strawberry.field(description="Number of passes before this one that could not be recorded.")
    placed: list[strawberry.ID] = strawberry.field(description="Sessions that were granted devices, in order.")
    preempted: list[strawberry.ID] = strawberry.field(description="Sessions that were preempted.")
    failed: list[strawberry.ID] = strawberry.field(description="Sessions that failed because they can never run.")


@strawberry.type(
    description="A verification of the record: the hash chains of the event log and of the decision ledger, the "
    "archives, and the table of holdings. Counts are 0 until it has ended without a fault."
)
class RecordCheck:
    started_at: datetime = strawberry.field(description="When it started.")
    ended_at: datetime | None = strawberry.field(description="When it ended; null while it is running.")
    faults: list[str] = strawberry.field(description="What is broken; empty when the record is intact.")
    events: BigInt = strawberry.field(description="Verified events.")
    passes: BigInt = strawberry.field(description="Verified passes of the ledger.")
    unwritten: BigInt = strawberry.field(description="Passes that events name and that the ledger lacks.")
    holdings: BigInt = strawberry.field(description="Holdings compared with the log.")
    archives: BigInt = strawberry.field(description="Archive files compared with their seals.")
    archived_rows: BigInt = strawberry.field(description="Rows in these files.")
    removed_rows: BigInt = strawberry.field(description="Rows that were removed without an archive.")


def uncounted(page: CursorPage[T]) -> UncountedConnection[T]:
    """The GraphQL connection of a page of a log."""
    return UncountedConnection(edges=edges_of(page), page_info=page_info_of(page))


@strawberry.input(description="Filter of changes. Fields that are null match all changes.")
class AuditFilterInput:
    entity_id: str | None = strawberry.field(default=None, description="Id of a session, lease, agent, quota, ...")
    actor: str | None = strawberry.field(default=None, description="A user, or `system:PART`.")
    kind: str | None = strawberry.field(default=None, description="`session`, `lease`, ..., or `session.queued`, ...")
    since: datetime | None = strawberry.field(default=None, description="Earliest time, included.")
    until: datetime | None = strawberry.field(default=None, description="Latest time, included.")
    people_only: bool = strawberry.field(default=False, description="Only changes made by users.")

    def to_filter(self) -> AuditFilter:
        """The filter as a domain value."""
        return AuditFilter(
            entity_id=self.entity_id,
            actor=self.actor,
            kind=self.kind,
            since=self.since,
            until=self.until,
            people_only=self.people_only,
        )


@strawberry.type
class AuditQueries:
    @root_field(UncountedConnection[AuditChange], "The audit log: who changed what, newest first. For operators.")
    async def audit(
        self,
        info: Info[Context, None],
        filter: Annotated[AuditFilterInput | None, strawberry.argument(description="Restricts the list.")] = None,
        first: First = PAGE_DEFAULT,
        after: After = None,
    ) -> UncountedConnection[ChangeView]:
        context = info.context
        where = filter.to_filter() if filter else AuditFilter()
        return uncounted(
            await context.services.administration.audit.audit(context.caller, where, page_of(first, after))
        )

    @root_field(list[DeviceHolding], "Holders of a device at a given time, in order of their grants. For operators.")
    async def held_by(
        self,
        info: Info[Context, None],
        device_id: Annotated[str, strawberry.argument(description="Id of the device: a GPU's UUID.")],
        at: Annotated[datetime, strawberry.argument(description="The time.")],
    ) -> tuple[HoldingView, ...]:
        context = info.context
        return await context.services.administration.audit.held_by(context.caller, device_id, at)

    @root_field(
        UncountedConnection[DeviceHolding],
        "Holders of a device in a period, newest grants first; from archives, too. For operators.",
    )
    async def device_holdings(
        self,
        info: Info[Context, None],
        device_id: Annotated[str, strawberry.argument(description="Id of the device: a GPU's UUID.")],
        since: Annotated[datetime | None, strawberry.argument(description="Start of the period.")] = None,
        until: Annotated[datetime | None, strawberry.argument(description="End of the period.")] = None,
        first: First = PAGE_DEFAULT,
        after: After = None,
    ) -> UncountedConnection[HoldingView]:
        context, page = info.context, page_of(first, after)
        audit = context.services.administration.audit
        return uncounted(await audit.device_holdings(context.caller, device_id, since=since, until=until, page=page))

    @root_field(
        RecordCheck,
        "Verifies the record, and waits up to 20 seconds for the result. While `ended_at` is null, ask again with "
        "`started_at` as `since`. There is one verification at a time; others wait for its result. For operators.",
    )
    async def record_check(
        self,
        info: Info[Context, None],
        since: Annotated[
            datetime | None,
            strawberry.argument(description="The result of the last verification will do if it started then or later."),
        ] = None,
    ) -> RecordCheckView:
        context = info.context
        return await context.services.administration.audit.record_check(context.caller, since=since)

    @root_field(
        list[DeviceHolding],
        "Who held these devices in a period, in order of the grants; at most 5,000 entries, the newest. For every "
        "user, like the holders of a device. Periods that are archived are left out.",
    )
    async def device_timeline(
        self,
        info: Info[Context, None],
        device_ids: Annotated[list[str], strawberry.argument(description="Ids of devices, at most 1,000.")],
        since: Annotated[datetime, strawberry.argument(description="Begin of the period, at most 31 days ago.")],
        until: Annotated[datetime | None, strawberry.argument(description="End of the period; null = now.")] = None,
    ) -> tuple[HoldingView, ...]:
        context = info.context
        return await context.services.administration.audit.device_timeline(
            context.caller, tuple(device_ids), since=since, until=until
        )

    @root_field(
        UncountedConnection[LedgerPass],
        "Recorded scheduling passes, newest first; `aliquot replay PASS` repeats one. For operators.",
    )
    async def ledger_passes(
        self, info: Info[Context, None], first: First = PAGE_DEFAULT, after: After = None
    ) -> UncountedConnection[LedgerPassView]:
        context = info.context
        return uncounted(
            await context.services.administration.audit.ledger_passes(context.caller, page_of(first, after))
        )
