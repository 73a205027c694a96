"""Pagination.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from msgspec import Struct


class PageInfo(Struct, frozen=True, kw_only=True):
    """Position of a page in its list."""

    hasNextPage: bool
    """Whether there are items after this page."""
    hasPreviousPage: bool
    """Whether there are items before this page."""
    startCursor: str | None
    """Cursor of the first item; null on an empty page."""
    endCursor: str | None
    """Cursor of the last item, to pass as `after` for the next page; null on an empty page."""
