"""Sessions in the archive: ended sessions with their kernels, leases and holdings."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, Subquery, Table, exists, func, or_, select, tuple_

from aliquot.service.retention import RetainedKind
from aliquot.store.archive.old_rows import OldRows
from aliquot.store.audit.holdings import HOLDINGS
from aliquot.store.hash_chain import HOLDINGS_KIND
from aliquot.store.mapping import SESSION
from aliquot.store.tables import EVENTS, KERNELS, LEASES, SESSIONS
from aliquot_schema.ids import SessionId, task_parts

SESSIONS_MAX: Final = 50_000
"""Sessions per file."""


def old(connection: Connection, *, before_us: int) -> Sequence[Row[str, int, int | None]]:
    """(id, version, ended_us) of sessions that may be archived, oldest first.

    Their events are archived already, they hold nothing, and no waiting session depends on them. An array is archived
    only together with all of its tasks.
    """
    unfinished = _with_young_tasks(before_us)
    is_of_it = unfinished.c.array_id == func.coalesce(SESSIONS.c.array_id, SESSIONS.c.id)
    stmt = select(SESSIONS.c.id, SESSIONS.c.version, SESSIONS.c.ended_us).outerjoin_from(SESSIONS, unfinished, is_of_it)
    stmt = stmt.where(SESSIONS.c.ended_us < before_us, ~_is_of_young_array(before_us), unfinished.c.array_id.is_(None))
    stmt = stmt.where(~_has_events(), ~_holds()).order_by(SESSIONS.c.ended_us, SESSIONS.c.id).limit(SESSIONS_MAX)
    rows = connection.execute(stmt).all()
    needed = _waited_for(connection) if rows else frozenset()
    while rows:
        if free := [row for row in rows if task_parts(row.id)[0] not in needed]:
            return free
        later = tuple_(SESSIONS.c.ended_us, SESSIONS.c.id) > (rows[-1].ended_us, rows[-1].id)
        rows = connection.execute(stmt.where(later)).all()
    return []


def _belongs_to(table: Table, names: Sequence[str]) -> ColumnElement[bool]:
    if table is SESSIONS:
        return SESSIONS.c.id.in_(names)
    if table is KERNELS:
        return KERNELS.c.session_id.in_(names)
    kernels = select(KERNELS.c.id).where(KERNELS.c.session_id.in_(names))
    return (LEASES.c.kernel_id if table is LEASES else HOLDINGS.c.lease_id).in_(kernels)


def _is_of_young_array(before_us: int) -> ColumnElement[bool]:
    """Whether the array of a task ended too recently. An array that no longer exists did not."""
    array = SESSIONS.alias("array")
    return exists().where(array.c.id == SESSIONS.c.array_id, _is_young(array.c.ended_us, before_us))


def _with_young_tasks(before_us: int) -> Subquery:
    """Arrays with a task that ended too recently, computed once: a check per task of a large array takes hours."""
    task = SESSIONS.alias("task")
    young = select(task.c.array_id).where(task.c.array_id.is_not(None), _is_young(task.c.ended_us, before_us))
    return young.distinct().subquery("unfinished")


def _is_young(ended_us: ColumnElement[int | None], before_us: int) -> ColumnElement[bool]:
    return or_(ended_us.is_(None), ended_us >= before_us)


def _has_events() -> ColumnElement[bool]:
    mine = select(KERNELS.c.id).where(KERNELS.c.session_id == SESSIONS.c.id).correlate(SESSIONS)
    return exists().where(or_(EVENTS.c.entity_id == SESSIONS.c.id, EVENTS.c.entity_id.in_(mine)))


def _holds() -> ColumnElement[bool]:
    mine: Select[Any] = select(KERNELS.c.id).where(KERNELS.c.session_id == SESSIONS.c.id).correlate(SESSIONS)
    return exists().where(LEASES.c.kernel_id.in_(mine), LEASES.c.released_us.is_(None))


def _waited_for(connection: Connection) -> frozenset[SessionId]:
    """Ids that waiting sessions depend on; for a task the id of its array."""
    depends = ~SESSIONS.c.spec.contains(
        '"depends_on":[]', autoescape=True
    )  # filters in SQL: most sessions depend on nothing
    waiting = connection.execute(select(SESSIONS).where(SESSIONS.c.ended_us.is_(None), depends))
    return frozenset(
        task_parts(link.session_id)[0] for row in waiting for link in SESSION.from_row(row).spec.depends_on
    )


OLD_SESSIONS: Final = OldRows(
    tables={
        RetainedKind.SESSIONS.value: SESSIONS,
        "kernels": KERNELS,
        RetainedKind.LEASES.value: LEASES,
        HOLDINGS_KIND: HOLDINGS,
    },
    belongs=_belongs_to,
)
