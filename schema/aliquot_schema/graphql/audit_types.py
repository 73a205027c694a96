"""Types of the record of what happened."""

from datetime import datetime
from typing import Generic, TypeVar

import strawberry

from aliquot_schema.audit_views import Reel
from aliquot_schema.graphql.connections import Edge, PageInfo
from aliquot_schema.graphql.scalars import BigInt

T = TypeVar("T")


@strawberry.type(description="One page of a record that may be long: how many items there are is not counted.")
class UncountedConnection(Generic[T]):
    edges: list[Edge[T]] = strawberry.field(description="The items of this page.")
    page_info: PageInfo = strawberry.field(name="pageInfo", description="Where this page lies in its list.")


@strawberry.type(description="One field of a record. Values are JSON texts.")
class ChangedField:
    name: str = strawberry.field(description="The field.")
    before: str | None = strawberry.field(
        description="What it was; null when the record was made by this change, or what was before is no longer kept."
    )
    after: str = strawberry.field(description="What it is.")


@strawberry.type(description="A change: one event of the log.")
class AuditChange:
    number: BigInt = strawberry.field(description="Of the event; rises without gaps.")
    at: datetime = strawberry.field(description="When it was committed.")
    kind: str = strawberry.field(description="What happened: `session.queued`, `lease.granted`, ...")
    entity_id: str = strawberry.field(description="Whom it happened to.")
    actor: str = strawberry.field(description="Who did it: a user, or a part of the server, `system:PART`.")
    request_id: str | None = strawberry.field(description="The request that asked for it.")
    pass_number: BigInt | None = strawberry.field(description="The pass of the allocator that decided it.")
    fields: list[ChangedField] = strawberry.field(
        description="What is another way now; all of it when the record was made by this change. Values of "
        "environments are not shown, and what sessions run is shown to admins alone."
    )


@strawberry.type(description="So much of one slot of one device, held by one lease from its grant to its release.")
class DeviceHolding:
    device_id: strawberry.ID = strawberry.field(description="The device.")
    slot: str = strawberry.field(description="The slot.")
    amount: str = strawberry.field(description="How much of it.")
    kind: str = strawberry.field(description="Of the lease.")
    lease_id: strawberry.ID = strawberry.field(description="The lease.")
    agent_id: strawberry.ID = strawberry.field(description="The agent that the device was granted on.")
    session_id: strawberry.ID | None = strawberry.field(description="The session; null when it was a person's own.")
    user: str = strawberry.field(description="Who held it.")
    since: datetime = strawberry.field(description="When it was granted.")
    until: datetime | None = strawberry.field(description="When it was given back; null while it is held.")
    evidence: str | None = strawberry.field(description="What proved that it was free; null while it is held.")
    pass_number: BigInt | None = strawberry.field(description="The pass of the allocator that granted it.")
    preempted_at: datetime | None = strawberry.field(description="When it was asked to make room.")
    preempted_by: str | None = strawberry.field(description="The session that started in its place, or the cause.")


@strawberry.type(description="A pass of the allocator that decided something new.")
class LedgerPass:
    number: BigInt = strawberry.field(description="Rises from pass to pass, over restarts too.")
    at: datetime = strawberry.field(description="When.")
    event_number: BigInt = strawberry.field(description="The last event that it knew of.")
    epoch: BigInt = strawberry.field(description="The term of the leader that decided.")
    code_version: str = strawberry.field(description="The sources that decided; they alone repeat it for certain.")
    lost_before: int = strawberry.field(description="Passes before this one that could not be written down.")
    placed: list[strawberry.ID] = strawberry.field(description="Sessions that were given devices, in their order.")
    preempted: list[strawberry.ID] = strawberry.field(description="Sessions that were asked to make room.")
    failed: list[strawberry.ID] = strawberry.field(description="Sessions that can never run any more.")


def uncounted(reel: Reel[T]) -> UncountedConnection[T]:
    """Shape a piece of a record for the wire."""
    return UncountedConnection(
        edges=[Edge(node=node, cursor=cursor) for node, cursor in zip(reel.items, reel.cursors, strict=True)],
        page_info=PageInfo(
            has_next_page=reel.has_next,
            has_previous_page=reel.has_previous,
            start_cursor=reel.cursors[0] if reel.cursors else None,
            end_cursor=reel.cursors[-1] if reel.cursors else None,
        ),
    )
