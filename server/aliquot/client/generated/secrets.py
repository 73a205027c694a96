"""Secrets.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from datetime import datetime

from msgspec import Struct


class Secret(Struct, frozen=True, kw_only=True):
    """A secret of yours, without its value, which nobody is shown."""

    name: str
    """Its name."""
    created_at: datetime
    """When it was made."""
    changed_at: datetime
    """When its value was set last."""
