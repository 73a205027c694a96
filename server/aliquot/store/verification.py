"""Verification of all that is chained, and of who held what, which is made of it."""

from dataclasses import dataclass

from sqlalchemy import Connection, exists, func, select

from aliquot.store import chain
from aliquot.store.audit.comparing import compare_holdings
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
    holdings: int
    """Who held what, as far as the table of it has come and the log reaches back."""


def verified(connection: Connection) -> Verified:
    """Walk all chains, and compare what the log says of holdings with their table.

    Raises:
        ChainBroken: something was changed, or is missing.
    """
    return Verified(
        events=chain.verify(connection),
        passes=ledger_chain.verify(connection),
        unwritten=_unwritten(connection),
        holdings=compare_holdings(connection),
    )


def _unwritten(connection: Connection) -> int:
    first, last = connection.execute(select(func.min(PASSES.c.number), func.max(PASSES.c.number))).one()
    if first is None:
        return 0
    has_entry = exists().where(PASSES.c.number == EVENTS.c.pass_number)
    asked = select(func.count(EVENTS.c.pass_number.distinct()))
    return connection.execute(asked.where(EVENTS.c.pass_number.between(first, last), ~has_entry)).scalar_one()
