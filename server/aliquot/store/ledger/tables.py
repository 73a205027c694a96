"""The ledger's tables. Bodies are JSON, compressed; `aliquot.store.ledger.packing` knows their form."""

from typing import Final

from sqlalchemy import Index, Table

from aliquot.store.columns import METADATA, Row, bytes_column, number_column, number_key, text_column, text_key


class PassRow(Row, table=True):
    """One link of the ledger's chain, see `aliquot.store.ledger.chain`."""

    __tablename__ = "passes"
    __table_args__ = (Index("ix_passes_now", "now_us"),)

    number: int = number_key()
    now_us: int = number_column()
    revision: int = number_column()
    seed: int = number_column()
    epoch: int = number_column()
    code_version: str = text_column()
    format: int = number_column()
    lost: int = number_column()
    body: bytes = bytes_column()
    checkpoint_hash: bytes | None = bytes_column()
    """Of the body of the checkpoint of the same number; empty = this pass has none."""
    prev_hash: bytes = bytes_column()
    hash: bytes = bytes_column()


class CheckpointRow(Row, table=True):
    """The state that a pass began with."""

    __tablename__ = "checkpoints"

    number: int = number_key()
    """The pass's."""
    body: bytes = bytes_column()


class ChainRow(Row, table=True):
    """Where a chain begins and ends: what is before its first link was deleted as a whole, when it was old."""

    __tablename__ = "chains"

    id: str = text_key()
    first_hash: bytes = bytes_column()
    """What the first link that is left goes on from."""
    last_number: int = number_column()
    last_hash: bytes = bytes_column()


PASSES: Final[Table] = METADATA.tables["passes"]
CHECKPOINTS: Final[Table] = METADATA.tables["checkpoints"]
CHAINS: Final[Table] = METADATA.tables["chains"]
