"""Subscriptions to one session, to all devices, and to the event log; each goes on from a number."""

from collections.abc import AsyncGenerator
from typing import Annotated

import strawberry
from strawberry.types import Info

from aliquot_schema.audit_views import ChangeView
from aliquot_schema.graphql.audit_types import AuditChange
from aliquot_schema.graphql.closing import closing
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.live import DeviceUpdate, SessionUpdate
from aliquot_schema.graphql.roots import root_stream
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.live_views import DeviceUpdateView, SessionUpdateView


@strawberry.type
class LiveStreams:
    """Part of `Subscription`."""

    @root_stream(
        SessionUpdate,
        "One session: first how it stands, unless `after` is given, then every committed change of it and of its "
        "kernels, in order, without gaps or repeats. It does not end with the session, which may be run again.",
    )
    async def session_updates(
        self,
        info: Info[Context, None],
        id: Annotated[strawberry.ID, strawberry.argument(description="The session.")],
        after: Annotated[
            BigInt | None, strawberry.argument(description="The `event_number` of the last update you know.")
        ] = None,
    ) -> AsyncGenerator[SessionUpdateView, None]:
        context = info.context
        async for update in closing(context.watcher.session_updates(context.caller, id, after=after)):
            yield update

    @root_stream(
        DeviceUpdate,
        "All devices: first how they stand, then what changes: who holds what of them, and what was measured. At most "
        "four updates a second. Where it is not known any more what changed since `after`, as when the server was "
        "started again, it begins with how they stand.",
    )
    async def device_updates(
        self,
        info: Info[Context, None],
        after: Annotated[
            BigInt | None, strawberry.argument(description="The `number` of the last update you know.")
        ] = None,
    ) -> AsyncGenerator[DeviceUpdateView, None]:
        context = info.context
        async for update in closing(context.watcher.device_updates(context.caller, after=after)):
            yield update

    @root_stream(
        AuditChange,
        "Every event of the log, in order, without gaps or repeats, told as `audit` tells it. For operators.",
    )
    async def events(
        self,
        info: Info[Context, None],
        after: Annotated[
            BigInt | None,
            strawberry.argument(description="The number of the last event you know; without it, from now on."),
        ] = None,
        kinds: Annotated[
            list[str] | None,
            strawberry.argument(description="These alone: `session`, `lease`, ..., or `session.queued`, ..."),
        ] = None,
    ) -> AsyncGenerator[ChangeView, None]:
        context = info.context
        async for change in closing(context.watcher.events(context.caller, kinds or (), after=after)):
            yield change
