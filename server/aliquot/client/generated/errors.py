"""Errors.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from datetime import datetime

from msgspec import Struct


class Blocker(Struct, frozen=True, kw_only=True):
    """Somebody who holds what is asked for, or who is to get it before."""

    session_id: str
    """The session."""
    user: str
    """Whose it is."""
    name: str | None
    """What its owner calls it."""
    until: datetime | None
    """When it is reckoned to give it back, where known."""
