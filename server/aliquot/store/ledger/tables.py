"""Ledger tables. `aliquot.store.ledger.encoding` defines the format of the compressed bodies."""

from typing import Final

from sqlalchemy import Index, Table

from aliquot.store.columns import METADATA, TableRow, bytes_column, number_column, number_key, text_column, text_key


class PassRow(TableRow, table=True):
    """One ledger entry, see `aliquot.store.ledger.encoding`."""

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
    """SHA-256 of the checkpoint's body; null = this pass has no checkpoint."""
    prev_hash: bytes = bytes_column()
    hash: bytes = bytes_column()


class CheckpointRow(TableRow, table=True):
    """The state before a pass."""

    __tablename__ = "checkpoints"

    number: int = number_key()
    """Number of the pass."""
    body: bytes = bytes_column()


class ChainRow(TableRow, table=True):
    """Start and end of a chain. Links before its start were removed by retention."""

    __tablename__ = "chains"

    id: str = text_key()
    first_hash: bytes = bytes_column()
    """Previous hash of the first remaining link."""
    last_number: int = number_column()
    last_hash: bytes = bytes_column()


PASSES: Final[Table] = METADATA.tables["passes"]
CHECKPOINTS: Final[Table] = METADATA.tables["checkpoints"]
CHAINS: Final[Table] = METADATA.tables["chains"]
