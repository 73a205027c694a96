"""Old passes of the ledger: whole stretches from checkpoint to checkpoint."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, select, update

from aliquot.service.retention.ports import HistoryDamaged
from aliquot.store.archive.sealing import Stretch, check_epoch, next_id
from aliquot.store.chain import ChainBroken
from aliquot.store.ledger.chain import LEDGER, check_link
from aliquot.store.ledger.tables import CHAINS, CHECKPOINTS, PASSES
from aliquot.store.seals import last_seal

COLUMNS: Final = (*PASSES.c, CHECKPOINTS.c.body.label("checkpoint"))
PAGE: Final = 100
REMOVED_AT_ONCE: Final = 100
"""Checkpoints are large."""


def sealable(connection: Connection, *, before_us: int) -> Stretch | None:
    """Entries before the newest checkpoint that is older, since the last seal."""
    old = select(func.max(PASSES.c.number)).where(PASSES.c.now_us < before_us, PASSES.c.checkpoint_hash.is_not(None))
    kept = connection.execute(old).scalar_one()
    if kept is None:
        return None
    seal = last_seal(connection, LEDGER)
    within = PASSES.c.number > (0 if seal is None else seal.last), PASSES.c.number < kept
    asked = select(func.count(), func.min(PASSES.c.number), func.max(PASSES.c.number)).where(*within)
    rows, first, last = connection.execute(asked).one()
    if not rows:
        return None
    head = connection.execute(select(PASSES.c.hash).where(PASSES.c.number == last)).scalar_one()
    return Stretch(id=next_id(connection, LEDGER), kind=LEDGER, first=first, last=last, rows=rows, head=head)


def page(connection: Connection, *, after: int, last: int) -> list[Row[Any]]:
    """The next entries of a stretch, each with its checkpoint."""
    joined = PASSES.outerjoin(CHECKPOINTS, CHECKPOINTS.c.number == PASSES.c.number)
    asked = select(*COLUMNS).select_from(joined).where(PASSES.c.number > after, PASSES.c.number <= last)
    return list(connection.execute(asked.order_by(PASSES.c.number).limit(PAGE)).all())


def before_first(connection: Connection) -> bytes | None:
    """The hash that the next stretch goes on from; None before the first."""
    seal = last_seal(connection, LEDGER)
    return None if seal is None else seal.head


def walked(rows: Sequence[Sequence[Any]], *, previous: bytes | None) -> bytes | None:
    """Check the links of a page; returns the last one's hash. The first stretch, before which there is none, begins
    wherever it does.

    Raises:
        HistoryDamaged: one does not fit.
    """
    try:
        for row in rows:
            *columns, _checkpoint = row
            previous = check_link(columns, previous=columns[-2] if previous is None else previous)
    except ChainBroken as broken:
        raise HistoryDamaged(str(broken)) from broken
    return previous


def remove(connection: Connection, *, epoch: int | None) -> int:
    """Remove a few entries that are sealed, the oldest first; the chain goes on from the hash of the last of them."""
    with connection.begin():
        check_epoch(connection, epoch)
        seal = last_seal(connection, LEDGER)
        if seal is None:
            return 0
        old = select(PASSES.c.number).where(PASSES.c.number <= seal.last).order_by(PASSES.c.number)
        numbers = connection.execute(old.limit(REMOVED_AT_ONCE)).scalars().all()
        if not numbers:
            return 0
        head = connection.execute(select(PASSES.c.hash).where(PASSES.c.number == numbers[-1])).scalar_one()
        connection.execute(update(CHAINS).where(CHAINS.c.id == LEDGER).values(first_hash=head))
        connection.execute(delete(CHECKPOINTS).where(CHECKPOINTS.c.number <= numbers[-1]))
        return connection.execute(delete(PASSES).where(PASSES.c.number <= numbers[-1])).rowcount
