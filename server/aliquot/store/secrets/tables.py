"""The table of secrets. It is no part of the event log, and no other table tells what they are."""

from typing import Final

from sqlalchemy import LargeBinary, Table
from sqlmodel import Field

from aliquot.store.tables import INT, METADATA, TEXT, Row


class SecretRow(Row, table=True):
    """A user's secret."""

    __tablename__ = "secrets"

    owner: str = Field(sa_type=TEXT, primary_key=True)
    name: str = Field(sa_type=TEXT, primary_key=True)
    key_id: str = Field(sa_type=TEXT)
    """Of the key that it was encrypted with, see `keys`."""
    sealed: bytes = Field(sa_type=LargeBinary)
    created_us: int = Field(sa_type=INT)
    changed_us: int = Field(sa_type=INT)


SECRETS: Final[Table] = METADATA.tables["secrets"]
