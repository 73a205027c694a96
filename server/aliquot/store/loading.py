"""State loading: what a server reads at start, that is live records and the newest ended sessions, never the log.

It also raises the epoch when a server begins to lead.
"""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import CompoundSelect, Connection, Select, and_, func, select, union, update

from aliquot.service.leadership.ports import CurrentTerm, TermStart
from aliquot.service.ports import LoadedRows
from aliquot.store.ledger.tables import PASSES
from aliquot.store.mapping import MAPPINGS, RecordMapping
from aliquot.store.migration import check_may_lead
from aliquot.store.tables import COUNTER, KERNELS, LEASES, SESSIONS
from aliquot_schema.events import KIND_OF, Record
from aliquot_schema.resources.leases import Kernel, Lease
from aliquot_schema.sessions import Session
from aliquot_schema.states import ENDED, SessionState

_LIVE = sorted(state.value for state in SessionState if state not in ENDED)
_LAST_ENTRY = select(func.max(PASSES.c.number))
"""Passes without any change are in the ledger and not in the log."""
_HELD = LEASES.c.released_us.is_(None)


def raise_epoch(connection: Connection, *, now_us: int) -> int:
    """Begin the next epoch and return it. Commits of a leader with an older epoch are rejected from now on."""
    raised = update(COUNTER).values(epoch=COUNTER.c.epoch + 1, epoch_us=now_us).returning(COUNTER.c.epoch)
    with connection.begin():
        epoch: int = connection.execute(raised).scalar_one()
    return epoch


def begin_term(connection: Connection, *, now_us: int) -> TermStart:
    """Begin the next epoch. It locks the counter like a commit, and so follows all earlier commits.

    Raises:
        StoreUnavailable: a newer release has upgraded the database.
    """
    raised = update(COUNTER).values(epoch=COUNTER.c.epoch + 1, epoch_us=now_us).returning(*COUNTER.c)
    with connection.begin():
        check_may_lead(connection)
        counter = connection.execute(raised).one()
        last_entry = connection.execute(_LAST_ENTRY).scalar_one()
    return TermStart(
        epoch=counter.epoch,
        began_us=counter.epoch_us,
        revision=counter.number,
        last_at_us=counter.at_us,
        last_pass=max(counter.pass_number, last_entry or 0),
    )


def present_term(connection: Connection) -> CurrentTerm:
    """The present term."""
    row = connection.execute(select(COUNTER.c.epoch, COUNTER.c.epoch_us)).one()
    return CurrentTerm(epoch=row.epoch, began_us=row.epoch_us)


def load(connection: Connection, *, epoch: int | None, ended_limit: int) -> LoadedRows:
    """Read the state as of one moment.

    Args:
        connection: in a transaction that sees one snapshot.
        epoch: the epoch this server began; None = it began none, and the stored epoch is returned.
        ended_limit: maximum number of ended sessions.
    """
    counter = connection.execute(select(COUNTER)).one()
    ended_count = connection.execute(select(func.count()).select_from(_ended(ended_limit + 1).subquery())).scalar_one()
    return LoadedRows(
        revision=counter.number,
        epoch=counter.epoch if epoch is None else epoch,
        last_at_us=counter.at_us,
        last_pass=max(counter.pass_number, connection.execute(_LAST_ENTRY).scalar_one() or 0),
        records=tuple(_records(connection, ended_limit=ended_limit)),
        ended_complete=ended_count <= ended_limit,
    )


def _records(connection: Connection, *, ended_limit: int) -> Iterator[Record]:
    kept = select(_kept(ended_limit).subquery().c.id)
    newest_attempt = and_(KERNELS.c.session_id == SESSIONS.c.id, KERNELS.c.attempt == SESSIONS.c.attempt)
    present = select(KERNELS).join(SESSIONS, newest_attempt).where(SESSIONS.c.id.in_(kept))
    of_present = select(LEASES.c.id).where(LEASES.c.kernel_id.in_(present.with_only_columns(KERNELS.c.id)))
    leases = select(LEASES).where(LEASES.c.id.in_(union(select(LEASES.c.id).where(_HELD), of_present)))
    chosen = {Session: select(SESSIONS).where(SESSIONS.c.id.in_(kept)), Kernel: present, Lease: leases}
    for record, mapping in MAPPINGS.items():
        yield from _read(connection, mapping, chosen[record] if record in chosen else _open(mapping))


def _open(mapping: RecordMapping[Any]) -> Select[Any]:
    """Records that are not over."""
    end = KIND_OF[mapping.record].end
    return select(mapping.table) if end is None else select(mapping.table).where(mapping.table.c[end].is_(None))


def _read(connection: Connection, mapping: RecordMapping[Any], rows: Select[Any]) -> Iterator[Record]:
    """Records in the order of their ids, so that every server and database loads the same sequence."""
    for row in connection.execute(rows.order_by(mapping.table.c.id)):
        yield mapping.from_row(row)


def _kept(ended_limit: int) -> CompoundSelect[Any]:
    """Ids of sessions that are live, hold devices, or are among the newest ended ones."""
    live = select(SESSIONS.c.id).where(SESSIONS.c.state.in_(_LIVE))
    holding = select(LEASES.c.session_id.label("id")).where(_HELD, LEASES.c.session_id.is_not(None))
    return union(live, holding, select(_ended(ended_limit).subquery().c.id))


def _ended(limit: int) -> Select[tuple[str]]:
    """Ids of the newest ended sessions. Only the end time is used, so that its index alone answers."""
    ended = select(SESSIONS.c.id).where(SESSIONS.c.ended_us.is_not(None))
    return ended.order_by(SESSIONS.c.ended_us.desc(), SESSIONS.c.id.desc()).limit(limit)
