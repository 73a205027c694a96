"""Lists that the server gives page by page."""

from collections.abc import Callable, Iterator
from typing import Any, Final

PAGE: Final = 100
"""As many as the server gives at one time."""


def nodes(ask: Callable[[int, str | None], Any], *, first: int | None = None) -> Iterator[Any]:
    """The items of a list, so many or all.

    Args:
        ask: gives a connection: a page of so many items after a cursor.
    """
    cursor: str | None = None
    left = first
    while left is None or left > 0:
        page = ask(PAGE if left is None else min(PAGE, left), cursor)
        yield from (edge.node for edge in page.edges)
        left = None if left is None else left - len(page.edges)
        if not page.pageInfo.hasNextPage:
            return
        cursor = page.pageInfo.endCursor
