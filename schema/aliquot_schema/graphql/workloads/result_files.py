"""GraphQL API of a session's results: the files below RESULT_DIR. Their contents are downloaded over HTTP."""

from datetime import datetime
from typing import Annotated

import strawberry
from strawberry.types import Info

from aliquot_schema.errors import InvalidRequest, Unavailable
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.fields import argument, root_field
from aliquot_schema.graphql.pagination import First, page_of
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.views.results import SessionFilesView, files_view

FIRST_DEFAULT = 100


@strawberry.type(description="A regular file below RESULT_DIR.")
class ResultFile:
    path: str = strawberry.field(description="Relative to RESULT_DIR.")
    size: BigInt = strawberry.field(description="Bytes.")
    changed_at: datetime = strawberry.field(description="Time of its last change.")
    sha256: str | None = strawberry.field(
        description="Of the content, in hexadecimal; null if it changed while it was read, or was too much to read for "
        "this answer. A listing hashes 512 MiB; the next one goes on."
    )


@strawberry.type(
    description="The files that a session left below RESULT_DIR on the agent of one rank. Download one from "
    "`/sessions/{id}/files/{path}`."
)
class SessionFiles:
    session_id: strawberry.ID = strawberry.field(description="The session.")
    rank: int = strawberry.field(description="Rank of the kernel, from 0. Ranks of one agent share a RESULT_DIR.")
    files: list[ResultFile] = strawberry.field(description="By path.")
    total_count: int = strawberry.field(description="Number of files on all pages.")
    bytes_total: BigInt = strawberry.field(description="Size of all files together.")
    left_out: int = strawberry.field(
        description="Entries that are not listed: links, devices, pipes, unreadable files, names that cannot be "
        "printed, and files above the limits."
    )
    bytes_max: BigInt | None = strawberry.field(description="Quota of their size together; null = none.")
    files_max: int = strawberry.field(description="Quota of their number.")
    is_over_quota: bool = strawberry.field(
        description="Whether they exceed the quota; what is above it is not copied to the results folder."
    )
    has_more: bool = strawberry.field(description="Whether there are files after this page.")


@strawberry.type
class ResultQueries:
    """Part of `Query`."""

    @root_field(
        SessionFiles,
        "The files below RESULT_DIR of a session that runs or has ended. For the session's owner and admins.",
    )
    async def session_files(
        self,
        info: Info[Context, None],
        id: Annotated[strawberry.ID, argument("The session.")],
        rank: Annotated[int, argument("Rank of the kernel, from 0.")] = 0,
        first: First = FIRST_DEFAULT,
        after: Annotated[str | None, argument("Path of the last file of the page before.")] = None,
    ) -> SessionFilesView:
        if rank < 0:
            raise InvalidRequest(f"`rank` must be 0 or more, not {rank}", field="rank")
        page_of(first, after)
        files = info.context.services.files
        if files is None:
            raise Unavailable("this server has no results of sessions")
        listing = await files.listing(info.context.caller, id, rank=rank)
        return files_view(id, rank, listing, first=first, after=after or "")
