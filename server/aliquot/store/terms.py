"""The beginning of a term: the epoch is raised in the order of the log, so that no older leader comes after it."""

from sqlalchemy import Connection, func, select, update

from aliquot.service.leadership.ports import Beginning, PresentTerm
from aliquot.store.ledger.tables import PASSES
from aliquot.store.tables import COUNTER


def begin_term(connection: Connection, *, now_us: int) -> Beginning:
    """Begin the next epoch; it locks the counter as a commit does, and so comes after all that were before it."""
    raised = update(COUNTER).values(epoch=COUNTER.c.epoch + 1, epoch_us=now_us).returning(*COUNTER.c)
    with connection.begin():
        counter = connection.execute(raised).one()
        last_entry = connection.execute(select(func.max(PASSES.c.number))).scalar_one()
    return Beginning(
        epoch=counter.epoch,
        began_us=counter.epoch_us,
        revision=counter.number,
        last_at_us=counter.at_us,
        last_pass=max(counter.pass_number, last_entry or 0),
    )


def present_term(connection: Connection) -> PresentTerm:
    """The newest term."""
    row = connection.execute(select(COUNTER.c.epoch, COUNTER.c.epoch_us)).one()
    return PresentTerm(epoch=row.epoch, began_us=row.epoch_us)
