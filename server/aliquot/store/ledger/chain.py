"""The ledger's hash chain.

hash = SHA-256(previous hash + JSON array of the columns + SHA-256 of the checkpoint's body, if any + the entry's body).
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Row, select

from aliquot.store.chain import ChainBroken
from aliquot.store.ledger.tables import CHAINS, CHECKPOINTS, PASSES

LEDGER: Final = "ledger"
_PAGE: Final = 500


def entry_hash(previous: bytes, *, columns: Sequence[Any], body: bytes, checkpoint_hash: bytes | None) -> bytes:
    """The hash of one entry; `columns` as in `Packed`."""
    told = msgspec.json.encode(list(columns))
    return hashlib.sha256(previous + told + (checkpoint_hash or b"") + body).digest()


def check_link(row: Sequence[Any], *, previous: bytes) -> bytes:
    """Check one entry, in the table's column order, but for the checkpoint; returns its hash.

    Raises:
        ChainBroken: it does not fit.
    """
    *columns, body, checkpoint_hash, prev_hash, stored = row
    expected = entry_hash(previous, columns=columns, body=body, checkpoint_hash=checkpoint_hash)
    if prev_hash != previous or stored != expected:
        raise ChainBroken(f"pass {columns[0]} of the ledger was changed, or passes before it are missing")
    return bytes(stored)


def verify(connection: Connection) -> int:
    """Walk the whole ledger and count its entries.

    Raises:
        ChainBroken: at the first entry that does not fit, or where the ledger ends elsewhere than it should.
    """
    ends = connection.execute(select(CHAINS).where(CHAINS.c.id == LEDGER)).one_or_none()
    if ends is None:
        return 0
    count, number, previous = 0, 0, ends.first_hash
    for row in _rows(connection):
        stored = check_link(tuple(row), previous=previous)
        if row.checkpoint_hash is not None and row.checkpoint_hash != _checkpoint_hash(connection, row.number):
            raise ChainBroken(f"the checkpoint of pass {row.number} was changed, or is missing")
        count, number, previous = count + 1, row.number, stored
    if count and (ends.last_number, ends.last_hash) != (number, previous):
        raise ChainBroken(f"the ledger ends at pass {number}, and should end at {ends.last_number}")
    if not count and ends.first_hash != ends.last_hash:
        raise ChainBroken(f"the ledger is empty, and should end at pass {ends.last_number}")
    return count


def _checkpoint_hash(connection: Connection, number: int) -> bytes:
    body = connection.execute(select(CHECKPOINTS.c.body).where(CHECKPOINTS.c.number == number)).scalar_one_or_none()
    return hashlib.sha256(body or b"").digest()


def _rows(connection: Connection) -> Iterator[Row[Any]]:
    after = -1
    while rows := connection.execute(
        select(PASSES).where(PASSES.c.number > after).order_by(PASSES.c.number).limit(_PAGE)
    ).all():
        yield from rows
        after = rows[-1].number
