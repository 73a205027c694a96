"""Pagination: keyset cursors. A cursor encodes the key of its item, so that pages never skip or repeat items.

A `Page` is cut from a complete list and has a total. A `CursorPage` holds numbered records, newest first, and has no
total.
"""

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from aliquot_schema.errors import InvalidRequest
from aliquot_schema.requests import PageRequest
from aliquot_schema.views.audit import CursorPage
from aliquot_schema.views.sessions import Page

T = TypeVar("T")
V = TypeVar("V")


def cursor_of(key: str) -> str:
    """The cursor for a key: base64url text."""
    return base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


def key_of(cursor: str) -> str:
    """The key in a cursor.

    Raises:
        InvalidRequest: it is not a cursor.
    """
    try:
        return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise invalid_cursor() from None


def invalid_cursor() -> InvalidRequest:
    """The error for a text that is not a cursor of the list."""
    return InvalidRequest("after: not a cursor of this list; use one from pageInfo", field="after")


def cut(
    items: Iterable[T],
    request: PageRequest,
    *,
    total: int,
    key: Callable[[T], str],
    show: Callable[[T], V],
    revision: int,
) -> Page[V]:
    """Cut a page from an ordered list; what comes after the page is not read.

    Args:
        total: the number of all items.
    Raises:
        InvalidRequest: the cursor's item is not in the list.
    """
    left = iter(items)
    start = 0 if request.after is None else _skip(left, key_of(request.after), key)
    page = list(islice(left, request.first))
    return Page(
        items=tuple([show(item) for item in page]),
        cursors=tuple([cursor_of(key(item)) for item in page]),
        has_next=start + len(page) < total,
        has_previous=start > 0,
        total_count=total,
        revision=revision,
    )


def _skip(items: Iterator[T], wanted: str, key: Callable[[T], str]) -> int:
    """Read up to the wanted item, and return how many were read."""
    for count, item in enumerate(items, start=1):
        if key(item) == wanted:
            return count
    raise InvalidRequest(
        "after: the item of this cursor is no longer in the list; begin again without `after`", field="after"
    )


DIGITS_MAX = 18


def number_before(page: PageRequest) -> int | None:
    """The number that all items of the page are below; None = no limit.

    Raises:
        InvalidRequest: it is not a cursor.
    """
    if page.after is None:
        return None
    key = key_of(page.after)
    if not key.isdecimal() or len(key) > DIGITS_MAX:
        raise invalid_cursor()
    return int(key)


def cursor_page_of(
    found: Sequence[T], page: PageRequest, *, number: Callable[[T], int], show: Callable[[T], V]
) -> CursorPage[V]:
    """Make a page of numbered records.

    Args:
        found: oldest first; one more than the page size if there are more records.
    """
    newest = list(reversed(found))[: page.first]
    return CursorPage(
        items=tuple(map(show, newest)),
        cursors=tuple(cursor_of(str(number(item))) for item in newest),
        has_next=len(found) > page.first,
        has_previous=page.after is not None,
    )
