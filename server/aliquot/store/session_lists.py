"""Lists of sessions: filters, orders and places become SQL, one text for both databases."""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, func, or_, select, tuple_

from aliquot.service.listing.orders import ORDERS
from aliquot.service.listing.terms import among, within
from aliquot.service.ports import SessionQuery, SortKey
from aliquot.store.encoding import ENCODER
from aliquot.store.mapping import SESSION
from aliquot.store.tables import KERNELS, LEASES, SESSIONS
from aliquot_schema.sessions import Session

Condition = ColumnElement[bool]


def list_sessions(connection: Connection, query: SessionQuery) -> tuple[Session, ...]:
    """One page."""
    found: list[Session] = []
    for stretch in _stretches(query):
        asked = stretch.where(*_conditions(query)).limit(query.limit - len(found))
        found += [SESSION.from_row(row) for row in connection.execute(asked)]
        if len(found) == query.limit:
            break
    return tuple(found)


def count_sessions(connection: Connection, query: SessionQuery) -> int:
    """How many match, `after` and `limit` aside."""
    return connection.execute(select(func.count()).select_from(SESSIONS).where(*_conditions(query))).scalar_one()


def _stretches(query: SessionQuery) -> Iterator[Select[Any]]:
    """Those that have what they are sorted by, and then those that have not: each can follow an index."""
    sorting, after = ORDERS[query.order], query.after
    columns = [SESSIONS.c[name] for name in sorting.fields]
    value, own_id = columns[0], columns[-1]
    if not value.nullable:
        yield _stretch(columns, after=after, descending=sorting.descending)
        return
    if after is None or after[0] is not None:
        yield _stretch(columns, after=after, descending=sorting.descending).where(value.is_not(None))
        after = None
    yield _stretch([own_id], after=after and after[-1:], descending=sorting.descending).where(value.is_(None))


def _stretch(columns: Sequence[ColumnElement[Any]], *, after: SortKey | None, descending: bool) -> Select[Any]:
    asked = select(SESSIONS).order_by(*(column.desc() if descending else column.asc() for column in columns))
    if after is None:
        return asked
    place = tuple_(*columns) if len(columns) > 1 else columns[0]
    other: Any = tuple_(*after, types=[column.type for column in columns]) if len(columns) > 1 else after[0]
    return asked.where(place < other if descending else place > other)


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
        yield or_(*(_begins(SESSIONS.c.failure, f'{{"code":{_quoted(code)},') for code in where.failures))
    if where.search:
        yield or_(*(c.icontains(where.search, autoescape=True) for c in (SESSIONS.c.name, SESSIONS.c.id)))
    if query.agents is not None or where.devices:
        yield _is_there(query)


def _is_there(query: SessionQuery) -> Condition:
    """By the leases of the newest attempt, given back or not; of work outside, by those that it holds now."""
    there: list[Condition] = [] if query.agents is None else [LEASES.c.agent_id.in_(query.agents)]
    if query.where.devices:
        there.append(or_(*(_has_device(device_id) for device_id in query.where.devices)))
    newest = and_(KERNELS.c.session_id == SESSIONS.c.id, KERNELS.c.attempt == SESSIONS.c.attempt)
    outside = select(LEASES.c.session_id).where(LEASES.c.kernel_id.is_(None), LEASES.c.released_us.is_(None), *there)
    return or_(
        exists().where(newest, LEASES.c.id == KERNELS.c.id, *there),
        SESSIONS.c.id.in_(outside.where(LEASES.c.session_id.is_not(None))),
    )


def _has_device(device_id: str) -> Condition:
    """Whether it is a key of a map of amounts in the JSON text. A slot of this name, which has a map, does not count.

    LIKE would not tell `a` from `A` in SQLite.
    """
    key = f"{_quoted(device_id)}:"
    without_slot = func.replace(LEASES.c.spec, f"{key}{{", "")
    return func.replace(without_slot, key, "") != without_slot


def _begins(column: ColumnElement[Any], text: str) -> Condition:
    return func.substr(column, 1, len(text)) == text


def _quoted(text: str) -> str:
    return ENCODER.encode(text).decode()
