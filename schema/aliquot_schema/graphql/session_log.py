"""A piece of what a session has printed."""

from typing import Annotated, Final

import strawberry
from strawberry.types import Info

from aliquot_schema.errors import InvalidRequest
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.descriptions import argument
from aliquot_schema.graphql.roots import root_field
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.log_views import BYTES_MAX, BYTES_MIN, SessionLogView

_START: Final = BigInt(0)
_BYTES: Final = 65_536


@strawberry.type(
    description="A piece of a kernel's output. Where an output is longer than its agent keeps, its middle is left out, "
    "and a line says how much; every byte keeps its offset."
)
class SessionLog:
    session_id: strawberry.ID = strawberry.field(description="The session.")
    kernel_id: strawberry.ID = strawberry.field(description="The kernel.")
    rank: int = strawberry.field(description="The kernel's rank, from 0.")
    attempt: int = strawberry.field(description="Which try, from 1; 0 before the first.")
    offset: BigInt = strawberry.field(description="Of the first byte of this piece.")
    next_offset: BigInt = strawberry.field(description="Ask with `offset` set to this one to go on.")
    length: BigInt = strawberry.field(description="How many bytes were printed so far, those left out included.")
    left_out: BigInt = strawberry.field(description="How many bytes of where this was read are no longer kept.")
    has_more: bool = strawberry.field(description="Whether more was printed after this piece.")
    text: str = strawberry.field(description="UTF-8; bytes that are not are shown as U+FFFD.")
    at_end: bool = strawberry.field(description="Whether nothing will follow.")


@strawberry.type
class SessionLogQueries:
    """Part of `Query`."""

    @root_field(
        SessionLog,
        "What one rank has printed so far, or a piece of it. Nothing is waited for; `session_logs` follows it. For its "
        "owner and admins.",
    )
    async def session_log(
        self,
        info: Info[Context, None],
        id: Annotated[strawberry.ID, argument("The session.")],
        rank: Annotated[int, argument("Which kernel, from 0.")] = 0,
        attempt: Annotated[int | None, argument("Which try, from 1; without it, the newest that was begun.")] = None,
        offset: Annotated[
            BigInt, argument("The byte at which to begin; a negative one counts from the end: the last so many bytes.")
        ] = _START,
        bytes_max: Annotated[int, argument(f"So many bytes at most, {BYTES_MIN} to {BYTES_MAX}.")] = _BYTES,
    ) -> SessionLogView:
        if rank < 0:
            raise InvalidRequest(f"`rank` is 0 or more, not {rank}", field="rank")
        if not BYTES_MIN <= bytes_max <= BYTES_MAX:
            raise InvalidRequest(f"`bytes_max` is {BYTES_MIN} to {BYTES_MAX}, not {bytes_max}", field="bytes_max")
        context = info.context
        return await context.watcher.session_log(
            context.caller, id, rank=rank, attempt=attempt, offset=offset, bytes_max=bytes_max
        )
