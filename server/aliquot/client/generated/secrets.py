"""Secrets.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from datetime import datetime

from msgspec import Struct


class Secret(Struct, frozen=True, kw_only=True):
    """A secret of the caller, without its value. Values are never shown."""

    name: str
    """Name of the secret."""
    created_at: datetime
    """When it was created."""
    changed_at: datetime
    """When its value was last set."""
