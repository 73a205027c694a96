"""Reading the ledger: keys of passes, and whole entries."""

from typing import Any

from sqlalchemy import Connection, Row, null, select

from aliquot.service.ledger.entries import PassEntry
from aliquot.service.ledger.ports import PassKey
from aliquot.store.ledger.packing import unpack
from aliquot.store.ledger.tables import CHECKPOINTS, PASSES

_KEY = (PASSES.c.number, PASSES.c.revision, PASSES.c.checkpoint_hash.is_not(None).label("has_checkpoint"))


def last(connection: Connection, *, count: int) -> tuple[PassKey, ...]:
    """The newest entries, oldest first."""
    rows = connection.execute(select(*_KEY).order_by(PASSES.c.number.desc()).limit(count)).all()
    return tuple(_key(row) for row in reversed(rows))


def checkpoint_before(connection: Connection, *, number: int) -> PassKey | None:
    """The newest entry with a checkpoint that is not after this pass."""
    asked = select(*_KEY).where(PASSES.c.number <= number, PASSES.c.checkpoint_hash.is_not(None))
    row = connection.execute(asked.order_by(PASSES.c.number.desc()).limit(1)).one_or_none()
    return None if row is None else _key(row)


def entries(connection: Connection, *, first: int, last: int, limit: int) -> tuple[PassEntry, ...]:
    """Entries from one number to another, both included, in order; at most so many."""
    joined = PASSES.outerjoin(CHECKPOINTS, CHECKPOINTS.c.number == PASSES.c.number)
    asked = select(PASSES, CHECKPOINTS.c.body.label("checkpoint")).select_from(joined)
    asked = asked.where(PASSES.c.number.between(first, last)).order_by(PASSES.c.number).limit(limit)
    return tuple(_entry(row) for row in connection.execute(asked))


def newest(connection: Connection, *, before: int | None, limit: int) -> tuple[PassEntry, ...]:
    """The newest entries below a number, oldest first, without their checkpoints."""
    asked = select(PASSES, null().label("checkpoint"))
    if before is not None:
        asked = asked.where(PASSES.c.number < before)
    rows = connection.execute(asked.order_by(PASSES.c.number.desc()).limit(limit)).all()
    return tuple(_entry(row) for row in reversed(rows))


def _key(row: Row[Any]) -> PassKey:
    return PassKey(number=row.number, revision=row.revision, has_checkpoint=bool(row.has_checkpoint))


def _entry(row: Row[Any]) -> PassEntry:
    *columns, body, _checkpoint_hash, _prev_hash, _hash, checkpoint = tuple(row)
    return unpack(columns, body=body, checkpoint=checkpoint)
