"""The queue, its changes, and the output of kernels."""

from datetime import datetime

import strawberry

from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.graphql.sessions import Session


@strawberry.type(description="A place in the queue.")
class QueueEntry:
    position: int = strawberry.field(description="From 1, in the order in which the allocator looks.")
    session: Session = strawberry.field(description="Who waits there.")


@strawberry.type(description="One committed change of a session.")
class QueueUpdate:
    event_number: BigInt = strawberry.field(
        description="The queue's revision now. Reconnect with `after` set to it to miss nothing."
    )
    at: datetime = strawberry.field(description="When it was committed.")
    kind: str = strawberry.field(description="What happened, like session.running.")
    session: Session = strawberry.field(description="The session as it was right after this event.")
    pending: int = strawberry.field(
        description="How many sessions were queued or held right after this event; now, if it is long ago."
    )


@strawberry.type(description="A piece of a kernel's output.")
class LogChunk:
    session_id: strawberry.ID = strawberry.field(description="The session.")
    kernel_id: strawberry.ID = strawberry.field(description="The kernel.")
    rank: int = strawberry.field(description="The kernel's rank, from 0.")
    offset: BigInt = strawberry.field(description="Of the first byte of this piece.")
    next_offset: BigInt = strawberry.field(description="Reconnect with `offset` set to this one to go on.")
    text: str = strawberry.field(description="UTF-8; bytes that are not are shown as U+FFFD.")
    at_end: bool = strawberry.field(description="Whether nothing will follow.")
