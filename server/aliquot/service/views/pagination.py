"""Pagination: keyset cursors. A cursor encodes the key of its item, so that pages never skip or repeat items.

The last cursor of a page also has the keys of some items before it: when its item has left the list, the next page
continues after the nearest one that is still there.

A `Page` is cut from a complete list and has a total. A `CursorPage` holds numbered records, newest first, and has no
total.
"""

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final, TypeVar

from aliquot_schema.errors import InvalidRequest
from aliquot_schema.requests import PageRequest
from aliquot_schema.views.audit import CursorPage
from aliquot_schema.views.sessions import Page

T = TypeVar("T")
V = TypeVar("V")

KEYS_MAX: Final = 20
"""Keys in the last cursor of a page."""
_SEPARATOR: Final = "\n"


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
        InvalidRequest: none of the cursor's items is in the list.
    """
    left = iter(items)
    start = 0
    if request.after is not None:
        start, left = _after(left, key_of(request.after).split(_SEPARATOR), key)
    page = list(islice(left, request.first))
    keys = [key(item) for item in page]
    cursors = [*map(cursor_of, keys[:-1]), *([cursor_of(_SEPARATOR.join(keys[: -1 - KEYS_MAX : -1]))] if keys else [])]
    return Page(
        items=tuple([show(item) for item in page]),
        cursors=tuple(cursors),
        has_next=start + len(page) < total,
        has_previous=start > 0,
        total_count=total,
        revision=revision,
    )


def _after(items: Iterator[T], wanted: Sequence[str], key: Callable[[T], str]) -> tuple[int, Iterator[T]]:
    """The number of items up to the first of the wanted keys that is in the list, and the items after it."""
    ranks = {name: rank for rank, name in enumerate(wanted)}
    best, read = len(wanted), 0
    behind: list[T] = []
    for count, item in enumerate(items, start=1):
        rank = ranks.get(key(item), len(wanted))
        if rank < best:
            best, read, behind = rank, count, []
        elif best < len(wanted):
            behind.append(item)
        if best == 0:
            break
    if best < len(wanted):
        return read, chain(behind, items)
    raise InvalidRequest(
        "after: the items of this cursor are no longer in the list; begin again without `after`", field="after"
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
