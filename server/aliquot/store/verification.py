"""Verification of all that is chained."""

from dataclasses import dataclass

from sqlalchemy import Connection, exists, func, select

from aliquot.store import chain
from aliquot.store.ledger import chain as ledger_chain
from aliquot.store.ledger.tables import PASSES
from aliquot.store.tables import EVENTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """How much was found to be whole."""

    events: int
    passes: int
    unwritten: int
    """Passes that events tell of, and the ledger does not."""


def verified(connection: Connection) -> Verified:
    """Walk all chains.

    Raises:
        ChainBroken: something was changed, or is missing.
    """
    return Verified(
        events=chain.verify(connection), passes=ledger_chain.verify(connection), unwritten=_unwritten(connection)
    )


def _unwritten(connection: Connection) -> int:
    first, last = connection.execute(select(func.min(PASSES.c.number), func.max(PASSES.c.number))).one()
    if first is None:
        return 0
    has_entry = exists().where(PASSES.c.number == EVENTS.c.pass_number)
    asked = select(func.count(EVENTS.c.pass_number.distinct()))
    return connection.execute(asked.where(EVENTS.c.pass_number.between(first, last), ~has_entry)).scalar_one()
