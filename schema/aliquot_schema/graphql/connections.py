"""Connections: lists cut by keyset, as Relay's cursor specification has them."""

from typing import Generic, TypeVar

import strawberry

from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.views import Page

T = TypeVar("T")


@strawberry.type(description="Where a page lies in its list.")
class PageInfo:
    has_next_page: bool = strawberry.field(name="hasNextPage", description="Whether something follows this page.")
    has_previous_page: bool = strawberry.field(
        name="hasPreviousPage", description="Whether something comes before this page."
    )
    start_cursor: str | None = strawberry.field(
        name="startCursor", description="The cursor of the first item; null on an empty page."
    )
    end_cursor: str | None = strawberry.field(
        name="endCursor", description="Ask with `after` set to this one for the next page; null on an empty page."
    )


@strawberry.type(description="One item of a page, and its place.")
class Edge(Generic[T]):
    node: T = strawberry.field(description="The item.")
    cursor: str = strawberry.field(description="Its place in the list; opaque.")


@strawberry.type(description="One page of a list, read at one moment.")
class Connection(Generic[T]):
    edges: list[Edge[T]] = strawberry.field(description="The items of this page.")
    page_info: PageInfo = strawberry.field(name="pageInfo", description="Where this page lies in its list.")
    total_count: int = strawberry.field(description="How many items match, on all pages.")
    revision: BigInt = strawberry.field(description="The number of the last event that this page knows of.")


def connection_of(page: Page[T]) -> Connection[T]:
    """Shape a page for the wire."""
    return Connection(
        edges=[Edge(node=node, cursor=cursor) for node, cursor in zip(page.items, page.cursors, strict=True)],
        page_info=PageInfo(
            has_next_page=page.has_next,
            has_previous_page=page.has_previous,
            start_cursor=page.cursors[0] if page.cursors else None,
            end_cursor=page.cursors[-1] if page.cursors else None,
        ),
        total_count=page.total_count,
        revision=BigInt(page.revision),
    )
