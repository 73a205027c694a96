"""Reels: pieces of a record that is listed by number, the newest first, and not counted."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from aliquot.service.paging import cursor_of, key_of, no_cursor
from aliquot_schema.audit_views import Reel
from aliquot_schema.requests import PageRequest

T = TypeVar("T")
V = TypeVar("V")

DIGITS_MAX = 18


def number_before(page: PageRequest) -> int | None:
    """Only what has a number below this one is asked for; None = all of it.

    Raises:
        InvalidRequest: the cursor is none.
    """
    if page.after is None:
        return None
    key = key_of(page.after)
    if not key.isdecimal() or len(key) > DIGITS_MAX:
        raise no_cursor()
    return int(key)


def reel_of(found: Sequence[T], page: PageRequest, *, number: Callable[[T], int], show: Callable[[T], V]) -> Reel[V]:
    """Shape what was found.

    Args:
        found: oldest first; one more than the page holds, if there are so many.
    """
    newest = list(reversed(found))[: page.first]
    return Reel(
        items=tuple(map(show, newest)),
        cursors=tuple(cursor_of(str(number(item))) for item in newest),
        has_next=len(found) > page.first,
        has_previous=page.after is not None,
    )
