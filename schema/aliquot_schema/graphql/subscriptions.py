"""Subscriptions. A client goes on where it was: by event number, or by offset."""

from collections.abc import AsyncGenerator
from typing import Annotated, Final

import strawberry
from strawberry.types import Info

from aliquot_schema.errors import InvalidRequest
from aliquot_schema.graphql.closing import closing
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.live_streams import LiveStreams
from aliquot_schema.graphql.queue import LogChunk, QueueUpdate
from aliquot_schema.graphql.roots import root_stream
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.views import LogChunkView, QueueUpdateView

_START: Final = BigInt(0)


@strawberry.type(description="What happens.")
class Subscription(LiveStreams):
    @root_stream(
        QueueUpdate,
        "Every committed change of a session, in order, without gaps or repeats: the deltas of the queue. Read `queue` "
        "at its `revision` and follow from there; whoever keeps each session while it is queued or held, and drops it "
        "when it is not, has what `queue` has at the same revision. Places in line are of the last pass; ask for them.",
    )
    async def queue_updates(
        self,
        info: Info[Context, None],
        after: Annotated[
            BigInt | None,
            strawberry.argument(description="The number of the last event you know; without it, from now on."),
        ] = None,
    ) -> AsyncGenerator[QueueUpdateView, None]:
        if after is not None and after < 0:
            raise InvalidRequest("`after` is an event number, 0 or more", field="after")
        async for update in closing(info.context.watcher.queue_updates(info.context.caller, after=after)):
            yield update

    @root_stream(
        LogChunk,
        "The output of one rank, followed until its end. A session that waits is waited for.",
    )
    async def session_logs(
        self,
        info: Info[Context, None],
        id: Annotated[strawberry.ID, strawberry.argument(description="The session.")],
        rank: Annotated[int, strawberry.argument(description="Which kernel, from 0.")] = 0,
        attempt: Annotated[
            int | None, strawberry.argument(description="Which try, from 1; without it, the newest.")
        ] = None,
        offset: Annotated[BigInt, strawberry.argument(description="The byte at which to begin.")] = _START,
    ) -> AsyncGenerator[LogChunkView, None]:
        for field, value in (("rank", rank), ("offset", offset)):
            if value < 0:
                raise InvalidRequest(f"`{field}` is 0 or more, not {value}", field=field)
        chunks = info.context.watcher.session_logs(info.context.caller, id, rank=rank, attempt=attempt, offset=offset)
        async for chunk in closing(chunks):
            yield chunk
