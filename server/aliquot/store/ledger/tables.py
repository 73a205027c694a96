"""The ledger's tables. Bodies are JSON, compressed; `aliquot.store.ledger.packing` knows their form."""

from typing import Any, Final

from sqlalchemy import Index, LargeBinary, Table
from sqlmodel import Field

from aliquot.store.tables import INT, METADATA, TEXT, Row


def _key() -> Any:
    return Field(sa_type=INT, primary_key=True, sa_column_kwargs={"autoincrement": False})


def _number() -> Any:
    return Field(sa_type=INT)


class PassRow(Row, table=True):
    """One link of the ledger's chain, see `aliquot.store.ledger.chain`."""

    __tablename__ = "passes"
    __table_args__ = (Index("ix_passes_now", "now_us"),)

    number: int = _key()
    now_us: int = _number()
    revision: int = _number()
    seed: int = _number()
    epoch: int = _number()
    code_version: str = Field(sa_type=TEXT)
    format: int = _number()
    lost: int = _number()
    body: bytes = Field(sa_type=LargeBinary)
    checkpoint_hash: bytes | None = Field(sa_type=LargeBinary)
    """Of the body of the checkpoint of the same number; empty = this pass has none."""
    prev_hash: bytes = Field(sa_type=LargeBinary)
    hash: bytes = Field(sa_type=LargeBinary)


class CheckpointRow(Row, table=True):
    """The state that a pass began with."""

    __tablename__ = "checkpoints"

    number: int = _key()
    """The pass's."""
    body: bytes = Field(sa_type=LargeBinary)


class ChainRow(Row, table=True):
    """Where a chain begins and ends: what is before its first link was deleted as a whole, when it was old."""

    __tablename__ = "chains"

    id: str = Field(sa_type=TEXT, primary_key=True)
    first_hash: bytes = Field(sa_type=LargeBinary)
    """What the first link that is left goes on from."""
    last_number: int = _number()
    last_hash: bytes = Field(sa_type=LargeBinary)


PASSES: Final[Table] = METADATA.tables["passes"]
CHECKPOINTS: Final[Table] = METADATA.tables["checkpoints"]
CHAINS: Final[Table] = METADATA.tables["chains"]
