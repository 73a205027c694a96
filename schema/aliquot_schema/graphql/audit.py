"""The record of what happened: changes, holders of devices, and passes of the allocator. All of it for operators."""

from datetime import datetime
from typing import Annotated

import strawberry
from strawberry.types import Info

from aliquot_schema.audit_views import AuditFilter, ChangeView, HoldingView, LedgerPassView
from aliquot_schema.graphql.audit_types import AuditChange, DeviceHolding, LedgerPass, UncountedConnection, uncounted
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.paging import PAGE_DEFAULT, After, First, page_of
from aliquot_schema.graphql.roots import root_field


@strawberry.input(description="Which changes; what is left out does not filter.")
class AuditFilterInput:
    entity_id: str | None = strawberry.field(default=None, description="A session, lease, agent, quota, ... by its id.")
    actor: str | None = strawberry.field(default=None, description="A user, or `system:PART`.")
    kind: str | None = strawberry.field(default=None, description="`session`, `lease`, ..., or `session.queued`, ...")
    since: datetime | None = strawberry.field(default=None, description="Not before this.")
    until: datetime | None = strawberry.field(default=None, description="Not after this.")
    people_only: bool = strawberry.field(default=False, description="Leave out what the server did by itself.")

    def to_filter(self) -> AuditFilter:
        """As the service knows it."""
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
    @root_field(UncountedConnection[AuditChange], "Who changed what, the newest first. For operators.")
    async def audit(
        self,
        info: Info[Context, None],
        filter: Annotated[AuditFilterInput | None, strawberry.argument(description="Which changes.")] = None,
        first: First = PAGE_DEFAULT,
        after: After = None,
    ) -> UncountedConnection[ChangeView]:
        context = info.context
        where = filter.to_filter() if filter else AuditFilter()
        return uncounted(await context.admin.audit(context.caller, where, page_of(first, after)))

    @root_field(list[DeviceHolding], "Who held a device at a moment, in the order of the grants. For operators.")
    async def held_by(
        self,
        info: Info[Context, None],
        device_id: Annotated[str, strawberry.argument(description="The device's id: a GPU's UUID.")],
        at: Annotated[datetime, strawberry.argument(description="The moment.")],
    ) -> tuple[HoldingView, ...]:
        context = info.context
        return await context.admin.held_by(context.caller, device_id, at)

    @root_field(
        UncountedConnection[LedgerPass],
        "Passes of the allocator that decided something new, the newest first; `aliquot replay PASS` decides one "
        "again. For operators.",
    )
    async def ledger_passes(
        self, info: Info[Context, None], first: First = PAGE_DEFAULT, after: After = None
    ) -> UncountedConnection[LedgerPassView]:
        context = info.context
        return uncounted(await context.admin.ledger_passes(context.caller, page_of(first, after)))
