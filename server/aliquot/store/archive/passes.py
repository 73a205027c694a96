"""Ledger entries in the archive: whole ranges from checkpoint to checkpoint."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, select, update

from aliquot.service.retention import HistoryDamaged
from aliquot.store.archive.sealing import EventRange, check_epoch, next_id
from aliquot.store.hash_chain import ChainBroken, last_seal
from aliquot.store.ledger.encoding import LEDGER, check_link
from aliquot.store.ledger.tables import CHAINS, CHECKPOINTS, PASSES
from aliquot.store.tables import COUNTER

COLUMNS: Final = (*PASSES.c, CHECKPOINTS.c.body.label("checkpoint"))
PAGE: Final = 100
REMOVED_ROWS: Final = 100
"""Entries removed per transaction; checkpoints are large."""


def sealable(connection: Connection, *, before_us: int) -> EventRange | None:
    """The entries since the last seal and before the newest checkpoint that is older than a time."""
    newest_us = connection.execute(select(COUNTER.c.at_us)).scalar_one()
    young = select(func.min(PASSES.c.number)).where(PASSES.c.now_us >= before_us, PASSES.c.now_us <= newest_us)
    old = select(func.max(PASSES.c.number)).where(PASSES.c.now_us < before_us, PASSES.c.checkpoint_hash.is_not(None))
    if (first_young := connection.execute(young).scalar_one()) is not None:
        old = old.where(PASSES.c.number < first_young)  # later ones are from a clock that was behind
    kept = connection.execute(old).scalar_one()
    if kept is None:
        return None
    seal = last_seal(connection, LEDGER)
    within = PASSES.c.number > (0 if seal is None else seal.last), PASSES.c.number < kept
    stmt = select(func.count(), func.min(PASSES.c.number), func.max(PASSES.c.number)).where(*within)
    rows, first, last = connection.execute(stmt).one()
    if not rows:
        return None
    head = connection.execute(select(PASSES.c.hash).where(PASSES.c.number == last)).scalar_one()
    return EventRange(id=next_id(connection, LEDGER), kind=LEDGER, first=first, last=last, rows=rows, head=head)


def page(connection: Connection, *, after: int, last: int) -> list[Row[Any]]:
    """The next entries of a range, each with its checkpoint."""
    joined = PASSES.outerjoin(CHECKPOINTS, CHECKPOINTS.c.number == PASSES.c.number)
    stmt = select(*COLUMNS).select_from(joined).where(PASSES.c.number > after, PASSES.c.number <= last)
    return list(connection.execute(stmt.order_by(PASSES.c.number).limit(PAGE)).all())


def before_first(connection: Connection) -> bytes | None:
    """The hash before the next range; None before the first one."""
    seal = last_seal(connection, LEDGER)
    return None if seal is None else seal.head


def check_links(rows: Sequence[Sequence[Any]], *, previous: bytes | None) -> bytes | None:
    """Verify the hashes of a page; returns the last one. With `previous=None`, any first hash is accepted.

    Raises:
        HistoryDamaged: a hash differs.
    """
    try:
        for row in rows:
            *columns, _checkpoint = row
            previous = check_link(columns, previous=columns[-2] if previous is None else previous)
    except ChainBroken as broken:
        raise HistoryDamaged(str(broken)) from broken
    return previous


def remove(connection: Connection, *, epoch: int | None) -> int:
    """Remove up to `REMOVED_ROWS` sealed entries, oldest first; the chain then starts after the last of them."""
    with connection.begin():
        check_epoch(connection, epoch)
        seal = last_seal(connection, LEDGER)
        if seal is None:
            return 0
        old = select(PASSES.c.number).where(PASSES.c.number <= seal.last).order_by(PASSES.c.number)
        numbers = connection.execute(old.limit(REMOVED_ROWS)).scalars().all()
        if not numbers:
            return 0
        head = connection.execute(select(PASSES.c.hash).where(PASSES.c.number == numbers[-1])).scalar_one()
        connection.execute(update(CHAINS).where(CHAINS.c.id == LEDGER).values(first_hash=head))
        connection.execute(delete(CHECKPOINTS).where(CHECKPOINTS.c.number <= numbers[-1]))
        return connection.execute(delete(PASSES).where(PASSES.c.number <= numbers[-1])).rowcount
