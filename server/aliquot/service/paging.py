"""Paging by keyset: a cursor is the key of the item it stands for, so that a page never skips or repeats."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import TypeVar

from aliquot_schema.errors import InvalidRequest
from aliquot_schema.requests import PageRequest
from aliquot_schema.views import Page

T = TypeVar("T")
V = TypeVar("V")


def cursor_of(key: str) -> str:
    """The opaque text for a key."""
    return base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


def key_of(cursor: str) -> str:
    """The key in a cursor.

    Raises:
        InvalidRequest: it was not made here.
    """
    try:
        return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise no_cursor() from None


def no_cursor() -> InvalidRequest:
    """What is said of a text that no list gave."""
    return InvalidRequest("after: this is no cursor of this list; take one from pageInfo", field="after")


def cut(
    items: Sequence[T], request: PageRequest, *, key: Callable[[T], str], show: Callable[[T], V], revision: int
) -> Page[V]:
    """Cut a page out of an ordered list that is at hand whole.

    Raises:
        InvalidRequest: the cursor stands for nothing in this list.
    """
    start = 0 if request.after is None else _index(items, key_of(request.after), key) + 1
    piece = items[start : start + request.first]
    return Page(
        items=tuple(show(item) for item in piece),
        cursors=tuple(cursor_of(key(item)) for item in piece),
        has_next=start + len(piece) < len(items),
        has_previous=start > 0,
        total_count=len(items),
        revision=revision,
    )


def _index(items: Sequence[T], wanted: str, key: Callable[[T], str]) -> int:
    for index, item in enumerate(items):
        if key(item) == wanted:
            return index
    raise InvalidRequest("after: what this cursor stood for is no longer in the list; begin again", field="after")
