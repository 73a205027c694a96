"""Subscriptions to the queue, sessions, devices, output and events. Each resumes after a number or at an offset."""

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Annotated, Final

import strawberry
from strawberry.types import Info

from aliquot_schema.errors import InvalidRequest
from aliquot_schema.graphql.administration.audit import AuditChange
from aliquot_schema.graphql.cluster.agents import Device, Kernel
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.fields import closing, root_stream
from aliquot_schema.graphql.queries import LogChunk, QueueUpdate
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.graphql.workloads.sessions import Session
from aliquot_schema.views.audit import ChangeView
from aliquot_schema.views.live import DeviceUpdateView, LogChunkView, SessionUpdateView
from aliquot_schema.views.sessions import QueueUpdateView


@strawberry.type(description="One committed change of a session or of one of its kernels.")
class SessionUpdate:
    event_number: BigInt = strawberry.field(
        description="Number of the event. Pass it as `after` to resume without gaps."
    )
    at: datetime = strawberry.field(description="When it was committed.")
    kind: str = strawberry.field(
        description="What happened, like `session.running` or `kernel.exited`; `snapshot` for the initial state."
    )
    is_snapshot: bool = strawberry.field(description="Whether this is the initial state instead of a change.")
    session: Session = strawberry.field(
        description="The session right after its own change, else as of sending. Its kernels and queue position are "
        "always as of sending."
    )
    kernel: Kernel | None = strawberry.field(
        description="The changed kernel right after the change; null if the session itself changed."
    )


@strawberry.type(description="Changed devices of one agent.")
class AgentDevices:
    agent_id: strawberry.ID = strawberry.field(description="The agent.")
    node_id: strawberry.ID = strawberry.field(description="The agent's host.")
    gpu_alloc_map: str = strawberry.field(description="As in `Agent`.")
    devices: list[Device] = strawberry.field(description="New and changed devices; in a snapshot, all.")
    devices_gone: list[strawberry.ID] = strawberry.field(description="Removed devices.")


@strawberry.type(description="Changes of devices since the previous update.")
class DeviceUpdate:
    number: BigInt = strawberry.field(
        description="Number of the update. Pass it as `after` to receive only later changes."
    )
    revision: BigInt = strawberry.field(description="Number of the last event included.")
    is_snapshot: bool = strawberry.field(
        description="Whether this is the complete state, which replaces all earlier updates."
    )
    agents_gone: list[strawberry.ID] = strawberry.field(
        description="Agents to remove before applying `agents`, which may contain them again."
    )
    agents: list[AgentDevices] = strawberry.field(description="Agents with changed devices.")


@strawberry.type
class LiveStreams:
    """Part of `Subscription`."""

    @root_stream(
        SessionUpdate,
        "Follow one session: a snapshot unless `after` is given, then every change of it and of its kernels, in "
        "order, without gaps or repeats. The stream does not end with the session, because it may be retried.",
    )
    async def session_updates(
        self,
        info: Info[Context, None],
        id: Annotated[strawberry.ID, strawberry.argument(description="The session.")],
        after: Annotated[
            BigInt | None, strawberry.argument(description="The `event_number` of the last update received.")
        ] = None,
    ) -> AsyncGenerator[SessionUpdateView, None]:
        context = info.context
        async for update in closing(context.services.subscriptions.session_updates(context.caller, id, after=after)):
            yield update

    @root_stream(
        DeviceUpdate,
        "Follow all devices: a snapshot, then changes of holders, health and readings, at most four updates a second. "
        "With `after`, begins with the changes since then, or with a snapshot if these are unknown, for example after "
        "a restart of the server.",
    )
    async def device_updates(
        self,
        info: Info[Context, None],
        after: Annotated[
            BigInt | None, strawberry.argument(description="The `number` of the last update received.")
        ] = None,
    ) -> AsyncGenerator[DeviceUpdateView, None]:
        context = info.context
        async for update in closing(context.services.subscriptions.device_updates(context.caller, after=after)):
            yield update

    @root_stream(
        AuditChange,
        "Follow the event log: every event, in order, without gaps or repeats, in the form of `audit`. For operators.",
    )
    async def events(
        self,
        info: Info[Context, None],
        after: Annotated[
            BigInt | None,
            strawberry.argument(description="Number of the last event received; null = from now on."),
        ] = None,
        kinds: Annotated[
            list[str] | None,
            strawberry.argument(description="Only these kinds: `session`, `lease`, ..., or `session.queued`, ..."),
        ] = None,
    ) -> AsyncGenerator[ChangeView, None]:
        context = info.context
        async for change in closing(context.services.subscriptions.events(context.caller, kinds or (), after=after)):
            yield change


_START: Final = BigInt(0)


@strawberry.type(description="Streams of changes. Each can be resumed after a disconnection.")
class Subscription(LiveStreams):
    @root_stream(
        QueueUpdate,
        "Follow the queue: every change of any session, in order, without gaps or repeats. To mirror the queue, read "
        "`queue`, subscribe after its `revision`, keep each session while it is queued or held, and drop it "
        "otherwise. Positions are those of the last scheduling pass; query `queue` for current ones.",
    )
    async def queue_updates(
        self,
        info: Info[Context, None],
        after: Annotated[
            BigInt | None,
            strawberry.argument(description="Number of the last event received; null = from now on."),
        ] = None,
    ) -> AsyncGenerator[QueueUpdateView, None]:
        if after is not None and after < 0:
            raise InvalidRequest("`after` must be an event number, 0 or more", field="after")
        async for update in closing(
            info.context.services.subscriptions.queue_updates(info.context.caller, after=after)
        ):
            yield update

    @root_stream(
        LogChunk,
        "Follow the output of one rank until it is complete. Waits for a session that has not started.",
    )
    async def session_logs(
        self,
        info: Info[Context, None],
        id: Annotated[strawberry.ID, strawberry.argument(description="The session.")],
        rank: Annotated[int, strawberry.argument(description="Rank of the kernel, from 0.")] = 0,
        attempt: Annotated[
            int | None, strawberry.argument(description="Number of the attempt, from 1; null = the newest.")
        ] = None,
        offset: Annotated[BigInt, strawberry.argument(description="Offset of the first byte.")] = _START,
    ) -> AsyncGenerator[LogChunkView, None]:
        for field, value in (("rank", rank), ("offset", offset)):
            if value < 0:
                raise InvalidRequest(f"`{field}` must be 0 or more, not {value}", field=field)
        chunks = info.context.services.subscriptions.session_logs(
            info.context.caller, id, rank=rank, attempt=attempt, offset=offset
        )
        async for chunk in closing(chunks):
            yield chunk
