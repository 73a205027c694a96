"""Connections.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from msgspec import Struct


class PageInfo(Struct, frozen=True, kw_only=True):
    """Where a page lies in its list."""

    hasNextPage: bool
    """Whether something follows this page."""
    hasPreviousPage: bool
    """Whether something comes before this page."""
    startCursor: str | None
    """The cursor of the first item; null on an empty page."""
    endCursor: str | None
    """Ask with `after` set to this one for the next page; null on an empty page."""
