"""Paging: the arguments that every list takes."""

from typing import Annotated, Final

import strawberry

from aliquot_schema.errors import InvalidRequest
from aliquot_schema.requests import PageRequest

PAGE_DEFAULT: Final = 20
PAGE_MAX: Final = 100

First = Annotated[int, strawberry.argument(description="How many items, 1 to 100.")]
After = Annotated[str | None, strawberry.argument(description="The cursor after which to begin.")]


def page_of(first: int, after: str | None) -> PageRequest:
    """Which piece is asked for.

    Raises:
        InvalidRequest: too many items, or none.
    """
    if not 1 <= first <= PAGE_MAX:
        raise InvalidRequest(f"`first` is 1 to {PAGE_MAX}, not {first}", field="first")
    return PageRequest(first=first, after=after)
