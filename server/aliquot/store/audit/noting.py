"""Noting: what somebody does to a database with a command, in its log."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from sqlalchemy import Connection, select
from sqlalchemy.exc import IntegrityError

from aliquot.service.ports import Batch, StaleVersion, Write
from aliquot.store.commits import write_batches
from aliquot.store.mapping import ACTION
from aliquot.store.tables import COUNTER
from aliquot_schema.actions import Action
from aliquot_schema.ids import RequestId

T = TypeVar("T")

_TRIES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Hand:
    """Who uses a command, and when."""

    actor: str
    """`unix:<account>`."""
    request_id: RequestId
    at_us: int


def note(connection: Connection, what: str, facts: Mapping[str, str], *, by: Hand) -> None:
    """Commit an event of what is about to be done: what breaks off after it is in the log, and may not be done."""

    def write(connection: Connection) -> None:
        with connection.begin():
            note_within(connection, [action(connection, what, facts)], by=by)

    patiently(write)(connection)


def note_within(connection: Connection, writes: Sequence[Write], *, by: Hand) -> None:
    """Write events in the transaction that is open, with what they tell of.

    A database in which nothing has ever happened stays so: an import needs an empty one.

    Raises:
        StaleVersion, IntegrityError: somebody else was quicker; see `patiently`.
    """
    if connection.execute(select(COUNTER.c.number)).scalar_one():
        batch = Batch(writes=tuple(writes), at_us=by.at_us, actor=by.actor, request_id=by.request_id)
        write_batches(connection, [batch])


def action(connection: Connection, what: str, facts: Mapping[str, str]) -> Write:
    """The next action of a sort, of which nobody else writes one until the transaction ends."""
    asked = select(ACTION.table).where(ACTION.table.c.id == what).with_for_update()
    row = connection.execute(asked).one_or_none()
    former = Action(id=what) if row is None else ACTION.from_row(row)
    return Write(record=replace(former, version=former.version + 1, facts=facts), kind=f"action.{what}")


def patiently(work: Callable[[Connection], T]) -> Callable[[Connection], T]:
    """Try a transaction again when a server, or another command, wrote the same rows meanwhile."""

    def run(connection: Connection) -> T:
        for tries_left in reversed(range(_TRIES)):
            try:
                return work(connection)
            except (StaleVersion, IntegrityError):
                if not tries_left:
                    raise
        raise AssertionError("the last try returns or raises")

    return run
