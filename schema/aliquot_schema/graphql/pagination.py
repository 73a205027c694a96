"""Pagination: connections and page arguments after Relay's cursor specification, with keyset cursors."""

from typing import Annotated, Final, Generic, TypeVar

import strawberry

from aliquot_schema.errors import InvalidRequest
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.requests import PageRequest
from aliquot_schema.views.audit import CursorPage
from aliquot_schema.views.sessions import Page

T = TypeVar("T")


@strawberry.type(description="Position of a page in its list.")
class PageInfo:
    has_next_page: bool = strawberry.field(name="hasNextPage", description="Whether there are items after this page.")
    has_previous_page: bool = strawberry.field(
        name="hasPreviousPage", description="Whether there are items before this page."
    )
    start_cursor: str | None = strawberry.field(
        name="startCursor", description="Cursor of the first item; null on an empty page."
    )
    end_cursor: str | None = strawberry.field(
        name="endCursor",
        description="Cursor of the last item, to pass as `after` for the next page; null on an empty page.",
    )


@strawberry.type(description="An item of a page with its cursor.")
class Edge(Generic[T]):
    node: T = strawberry.field(description="The item.")
    cursor: str = strawberry.field(description="Opaque position in the list.")


@strawberry.type(description="One page of a list, consistent at one revision.")
class Connection(Generic[T]):
    edges: list[Edge[T]] = strawberry.field(description="The items of this page.")
    page_info: PageInfo = strawberry.field(name="pageInfo", description="Position of this page in its list.")
    total_count: int = strawberry.field(description="Number of matching items on all pages.")
    revision: BigInt = strawberry.field(description="Number of the last event included in this page.")


def connection_of(page: Page[T]) -> Connection[T]:
    """The GraphQL connection of a page."""
    return Connection(
        edges=edges_of(page),
        page_info=page_info_of(page),
        total_count=page.total_count,
        revision=BigInt(page.revision),
    )


def edges_of(page: Page[T] | CursorPage[T]) -> list[Edge[T]]:
    """The items of a page with their cursors."""
    return [Edge(node=node, cursor=cursor) for node, cursor in zip(page.items, page.cursors, strict=True)]


def page_info_of(page: Page[T] | CursorPage[T]) -> PageInfo:
    """The position of a page in its list."""
    return PageInfo(
        has_next_page=page.has_next,
        has_previous_page=page.has_previous,
        start_cursor=page.cursors[0] if page.cursors else None,
        end_cursor=page.cursors[-1] if page.cursors else None,
    )


PAGE_DEFAULT: Final = 20
PAGE_MAX: Final = 100

First = Annotated[int, strawberry.argument(description="Number of items, 1 to 100.")]
After = Annotated[str | None, strawberry.argument(description="Cursor after which the page begins.")]


def page_of(first: int, after: str | None) -> PageRequest:
    """Validate page arguments.

    Raises:
        InvalidRequest: `first` is out of range.
    """
    if not 1 <= first <= PAGE_MAX:
        raise InvalidRequest(f"`first` must be 1 to {PAGE_MAX}, not {first}", field="first")
    return PageRequest(first=first, after=after)
