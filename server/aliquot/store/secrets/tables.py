"""The table of secrets. It is no part of the event log, and no other table tells what they are."""

from typing import Final

from sqlalchemy import Table

from aliquot.store.columns import METADATA, Row, bytes_column, number_column, text_column, text_key


class SecretRow(Row, table=True):
    """A user's secret."""

    __tablename__ = "secrets"

    owner: str = text_key()
    name: str = text_key()
    key_id: str = text_column()
    """Of the key that it was encrypted with, see `keys`."""
    sealed: bytes = bytes_column()
    created_us: int = number_column()
    changed_us: int = number_column()


SECRETS: Final[Table] = METADATA.tables["secrets"]
