"""Writing the ledger: entries at its end."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from aliquot.service.ports import NotLeader
from aliquot.store.chain import CHAIN_START
from aliquot.store.ledger.chain import LEDGER, entry_hash
from aliquot.store.ledger.packing import Packed
from aliquot.store.ledger.tables import CHAINS, CHECKPOINTS, PASSES
from aliquot.store.statements import insert_rows
from aliquot.store.tables import COUNTER, EVENTS


def append(connection: Connection, packed: Sequence[Packed], *, epoch: int) -> None:
    """Write entries in one transaction; those that are there are left as they are.

    Raises:
        NotLeader: the epoch is over.
    """
    with connection.begin():
        present = connection.execute(select(COUNTER.c.epoch).with_for_update(read=True)).scalar_one()
        if present != epoch:
            raise NotLeader(f"the entries are of epoch {epoch}, the present one is {present}")
        end = _end(connection)
        number, previous = end.last_number, end.last_hash
        fresh = [one for one in packed if one.columns[0] > number]
        rows = []
        for one in fresh:
            linked = entry_hash(previous, columns=one.columns, body=one.body, checkpoint_hash=one.checkpoint_hash)
            rows.append((*one.columns, one.body, one.checkpoint_hash, previous, linked))
            previous = linked
        if not fresh:
            return
        insert_rows(connection, PASSES, rows)
        checkpoints = [(one.columns[0], one.checkpoint) for one in fresh if one.checkpoint is not None]
        if checkpoints:
            insert_rows(connection, CHECKPOINTS, checkpoints)
        ends = update(CHAINS).where(CHAINS.c.id == LEDGER)
        connection.execute(ends.values(last_number=fresh[-1].columns[0], last_hash=previous))


def missing(connection: Connection) -> int:
    """Passes of earlier epochs that events tell of, after the last entry."""
    newest = select(PASSES.c.number, PASSES.c.revision).order_by(PASSES.c.number.desc()).limit(1)
    last = connection.execute(newest).one_or_none()
    if last is None:
        return 0
    present = select(COUNTER.c.epoch).scalar_subquery()
    told = select(func.count(EVENTS.c.pass_number.distinct())).where(
        EVENTS.c.number > last.revision, EVENTS.c.pass_number > last.number, EVENTS.c.epoch < present
    )
    return connection.execute(told).scalar_one()


def _end(connection: Connection) -> Row[Any]:
    """The row that tells where the ledger ends, locked until the transaction ends; made for the first entry."""
    asked = select(CHAINS).where(CHAINS.c.id == LEDGER).with_for_update()
    found = connection.execute(asked).one_or_none()
    if found is None:
        fresh = {"id": LEDGER, "first_hash": CHAIN_START, "last_number": 0, "last_hash": CHAIN_START}
        connection.execute(insert(CHAINS).values(fresh))
        found = connection.execute(asked).one()
    return found
