"""Errors types.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from datetime import datetime

from msgspec import Struct


class Blocker(Struct, frozen=True, kw_only=True):
    """A session that holds what the request needs, or that is ahead of it."""

    session_id: str
    """The session."""
    user: str
    """Its owner."""
    name: str | None
    """Its name."""
    until: datetime | None
    """Expected release of its devices; null if unknown."""
