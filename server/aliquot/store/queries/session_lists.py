"""Session lists: filters, sort orders and page cursors as SQL, the same text for both databases."""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, func, or_, select, tuple_

from aliquot.service.ports import SessionQuery, SortKey
from aliquot.service.views.session_list import ORDERS, among, tag_of, within
from aliquot.store.mapping import ENCODER, SESSION
from aliquot.store.tables import KERNELS, LEASES, SESSIONS
from aliquot_schema.sessions import Session

Condition = ColumnElement[bool]


def list_sessions(connection: Connection, query: SessionQuery) -> tuple[Session, ...]:
    """One page of sessions."""
    found: list[Session] = []
    for page_stmt in _page_stmts(query):
        stmt = page_stmt.where(*_conditions(query)).limit(query.limit - len(found))
        found += [SESSION.from_row(row) for row in connection.execute(stmt)]
        if len(found) == query.limit:
            break
    return tuple(found)


def count_sessions(connection: Connection, query: SessionQuery) -> int:
    """Number of matching sessions, regardless of `after` and `limit`."""
    return connection.execute(select(func.count()).select_from(SESSIONS).where(*_conditions(query))).scalar_one()


def _page_stmts(query: SessionQuery) -> Iterator[Select[Any]]:
    """Rows with a sort value, then rows without one; each statement can use an index."""
    sorting, after = ORDERS[query.order], query.after
    columns = [SESSIONS.c[name] for name in sorting.fields]
    value, own_id = columns[0], columns[-1]
    if not value.nullable:
        yield _page_stmt(columns, after=after, descending=sorting.descending)
        return
    if after is None or after[0] is not None:
        yield _page_stmt(columns, after=after, descending=sorting.descending).where(value.is_not(None))
        after = None
    yield _page_stmt([own_id], after=after and after[-1:], descending=sorting.descending).where(value.is_(None))


def _page_stmt(columns: Sequence[ColumnElement[Any]], *, after: SortKey | None, descending: bool) -> Select[Any]:
    stmt = select(SESSIONS).order_by(*(column.desc() if descending else column.asc() for column in columns))
    if after is None:
        return stmt
    place = tuple_(*columns) if len(columns) > 1 else columns[0]
    other: Any = tuple_(*after, types=[column.type for column in columns]) if len(columns) > 1 else after[0]
    return stmt.where(place < other if descending else place > other)


def _conditions(query: SessionQuery) -> Iterator[Condition]:
    where, members = query.where, query.members_only
    for name, values in among(where).items():
        yield SESSIONS.c[name].in_([value.value if isinstance(value, Enum) else value for value in values])
    for name, since_us, until_us in within(where):
        column = SESSIONS.c[name]
        yield from ([] if since_us is None else [column >= since_us])
        yield from ([] if until_us is None else [column <= until_us])
    if members is not None:
        yield or_(SESSIONS.c.owner == members.owner, SESSIONS.c.project.in_(members.projects))
    if where.failures:
        yield or_(*(_has_prefix(SESSIONS.c.failure, f'{{"code":{_quoted(code)},') for code in where.failures))
    for text in where.tags:
        yield _has_tag(text)
    if where.search:
        yield or_(*(c.icontains(where.search, autoescape=True) for c in (SESSIONS.c.name, SESSIONS.c.id)))
    if query.agents is not None or where.devices:
        yield _is_placed_on(query)


def _is_placed_on(query: SessionQuery) -> Condition:
    """By the leases of the newest attempt, released or not; for external allocations by those they hold now."""
    on_devices: list[Condition] = [] if query.agents is None else [LEASES.c.agent_id.in_(query.agents)]
    if query.where.devices:
        on_devices.append(or_(*(_has_device(device_id) for device_id in query.where.devices)))
    newest = and_(KERNELS.c.session_id == SESSIONS.c.id, KERNELS.c.attempt == SESSIONS.c.attempt)
    allocations = select(LEASES.c.session_id).where(
        LEASES.c.kernel_id.is_(None), LEASES.c.released_us.is_(None), *on_devices
    )
    return or_(
        exists().where(newest, LEASES.c.id == KERNELS.c.id, *on_devices),
        SESSIONS.c.id.in_(allocations.where(LEASES.c.session_id.is_not(None))),
    )


def _has_device(device_id: str) -> Condition:
    """Whether a device id is a key of a map of amounts in the JSON text. A slot, followed by a map, is not.

    LIKE is not used: in SQLite it ignores case.
    """
    key = f"{_quoted(device_id)}:"
    without_slot = func.replace(LEASES.c.spec, f"{key}{{", "")
    return func.replace(without_slot, key, "") != without_slot


def _has_tag(text: str) -> Condition:
    """Whether the JSON text of the tags has an entry. Quotes within names and values are escaped."""
    name, value = tag_of(text)
    entry = f"{_quoted(name)}:{'' if value is None else _quoted(value)}"
    return or_(*(func.replace(SESSIONS.c.tags, start, "") != SESSIONS.c.tags for start in (f"{{{entry}", f",{entry}")))


def _has_prefix(column: ColumnElement[Any], text: str) -> Condition:
    return func.substr(column, 1, len(text)) == text


def _quoted(text: str) -> str:
    return ENCODER.encode(text).decode()
