"""What tables are made of: types that are alike in both databases, and columns of them."""

from typing import Any, Final

from sqlalchemy import BigInteger, Integer, LargeBinary, MetaData, Text, text
from sqlalchemy.orm import registry
from sqlmodel import Field, SQLModel

TEXT: Final = Text().with_variant(Text(collation="C"), "postgresql")
"""Compared byte by byte in both databases, so that ids sort alike."""
INT: Final = BigInteger().with_variant(Integer(), "sqlite")
"""64 bits in both databases; SQLite takes only the very word INTEGER as its row number."""

METADATA: Final = MetaData(naming_convention={"pk": "pk_%(table_name)s"})


class Row(SQLModel, registry=registry(metadata=METADATA)):
    """What all tables share: their own metadata, apart from other users of SQLModel in the process."""

    # Rows are read and written as tuples: nobody asks for validators, which take longer to make than the tables.
    model_config = {"defer_build": True}


def text_key() -> Any:
    """A text that is the key, or a part of it."""
    return Field(sa_type=TEXT, primary_key=True)


def number_key() -> Any:
    """A number that is the key, and that the database does not choose."""
    return Field(sa_type=INT, primary_key=True, sa_column_kwargs={"autoincrement": False})


def text_column() -> Any:
    """A text."""
    return Field(sa_type=TEXT)


def number_column() -> Any:
    """A number of 64 bits."""
    return Field(sa_type=INT)


def bytes_column() -> Any:
    """Bytes."""
    return Field(sa_type=LargeBinary)


def where(condition: str) -> dict[str, Any]:
    """Of an index that holds some of the rows."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}
