"""Session list: sort orders with their cursors, filters, and the list of sessions in memory.

Orders and filters name fields of `Session` that are also columns of the database; the store uses the same tables.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from string import ascii_lowercase, ascii_uppercase
from typing import Final

from msgspec import Struct

from aliquot.service.ports import SessionQuery, SortKey
from aliquot.service.state.state import State
from aliquot.service.views.pagination import cursor_of, invalid_cursor, key_of
from aliquot.service.views.terms import microseconds_or_none
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.identity.access import HIDDEN, Visibility
from aliquot_schema.ids import SESSION_PREFIX, LeaseId, SessionId
from aliquot_schema.requests import SessionFilter, SessionOrder, TimeRange
from aliquot_schema.resources.leases import Lease
from aliquot_schema.resources.slots import AMOUNT_MAX
from aliquot_schema.sessions import Session


class Sorting(Struct, frozen=True):
    """A sort order. Ties are ordered by id, which sorts by creation time. Sessions without a value come last."""

    by: str
    """Field or property of `Session`, and column of the same name."""
    descending: bool
    is_text: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields compared, in this order; the id is the last."""
        return tuple(dict.fromkeys((self.by, "id")))

    def key(self, session: Session) -> SortKey:
        """The sort key of a session: one value for each of `fields`."""
        return tuple(getattr(session, name) for name in self.fields)

    def is_beyond(self, key: SortKey, *, after: SortKey) -> bool:
        """Whether `key` comes after `after` in this order."""
        if (key[0] is None) != (after[0] is None):
            return key[0] is None
        own, other = (key[-1:], after[-1:]) if key[0] is None else (key, after)
        return own < other if self.descending else own > other


ORDERS: Final[Mapping[SessionOrder, Sorting]] = {
    SessionOrder.NEWEST: Sorting("id", descending=True, is_text=True),
    SessionOrder.OLDEST: Sorting("id", descending=False, is_text=True),
    SessionOrder.PRIORITY_DESC: Sorting("priority", descending=True),
    SessionOrder.PRIORITY_ASC: Sorting("priority", descending=False),
    SessionOrder.STARTED_DESC: Sorting("started_us", descending=True),
    SessionOrder.STARTED_ASC: Sorting("started_us", descending=False),
    SessionOrder.ENDED_DESC: Sorting("ended_us", descending=True),
    SessionOrder.ENDED_ASC: Sorting("ended_us", descending=False),
    SessionOrder.GPUS_DESC: Sorting("gpus_milli", descending=True),
    SessionOrder.GPUS_ASC: Sorting("gpus_milli", descending=False),
    SessionOrder.NAME_DESC: Sorting("name", descending=True, is_text=True),
    SessionOrder.NAME_ASC: Sorting("name", descending=False, is_text=True),
}


def cursor_at(key: SortKey, *, order: SessionOrder) -> str:
    """The cursor of a sort key: the order, the id, and the value if there is one."""
    *value, session_id = key
    texts = [str(int(one)) if isinstance(one, int) else one for one in (session_id, *value) if one is not None]
    return cursor_of("\n".join((order, *texts)))


def place_of(cursor: str, *, order: SessionOrder) -> SortKey:
    """The inverse of `cursor_at`.

    Raises:
        InvalidRequest: it belongs to another order, or is not a cursor.
    """
    name, *rest = key_of(cursor).split("\n", 2)
    if name not in list(SessionOrder) or not rest or not rest[0].startswith(SESSION_PREFIX):
        raise invalid_cursor()
    if name != order:
        message = f"after: this cursor belongs to the order {name}, and the request has the order {order}"
        raise InvalidRequest(f"{message}; use the same order, or begin again without `after`", field="after")
    sorting = ORDERS[order]
    if len(sorting.fields) == 1:
        return (rest[0],)
    return (_value(rest[1], is_text=sorting.is_text) if len(rest) > 1 else None, rest[0])


def _value(text: str, *, is_text: bool) -> int | str:
    if is_text:
        return text
    if not text.isascii() or not text.isdecimal() or len(text) > len(str(AMOUNT_MAX)) or int(text) > AMOUNT_MAX:
        raise invalid_cursor()
    return int(text)


AMONG: Final[Mapping[str, str]] = {
    "ids": "id",
    "states": "state",
    "owners": "owner",
    "projects": "project",
    "pools": "pool",
    "priorities": "priority",
    "exit_codes": "exit_code",
}
EQUAL: Final = ("run_id", "name", "array_id")
WITHIN: Final[Mapping[str, str]] = {"queued_at": "queued_us", "started_at": "started_us", "ended_at": "ended_us"}
FAILURES: Final = "failure"
"""Compared by the failure's code."""
TAGS: Final = "tags"
"""Compared by name, or by name and value."""
SEARCH_CHARS_MAX: Final = 200
VALUES_MAX: Final = 1000
"""Values in one list of a filter."""
COMPARED_MAX: Final = 100
"""Values in a list that is compared value by value, `_COMPARED`."""
_COMPARED: Final = frozenset({"failures", "devices", "tags"})


def among(where: SessionFilter) -> dict[str, tuple[object, ...]]:
    """Allowed values by field; a session must have one of them in each."""
    several = {field: getattr(where, name) for name, field in AMONG.items() if getattr(where, name)}
    single = {name: (getattr(where, name),) for name in EQUAL if getattr(where, name) is not None}
    return several | single


def within(where: SessionFilter) -> Iterator[tuple[str, int | None, int | None]]:
    """Time fields with their first and last microsecond, inclusive; a session without such a time never matches."""
    for name, field in WITHIN.items():
        span: TimeRange | None = getattr(where, name)
        if span is not None and (span.since is not None or span.until is not None):
            yield field, microseconds_or_none(span.since), microseconds_or_none(span.until)


def filters_by_hidden_fields(where: SessionFilter) -> bool:
    """Whether the filter uses fields hidden from other users: filtering by them would allow guessing their values."""
    asked = {*among(where), *((FAILURES,) if where.failures else ()), *((TAGS,) if where.tags else ())}
    return not asked.isdisjoint(HIDDEN[Visibility.EVERYBODY])


def check(where: SessionFilter) -> None:
    """Check the texts and the lists of a filter.

    Raises:
        InvalidRequest: a text or a list is too long, or a text has a NUL character, at which SQLite ends it.
    """
    if len(where.search or "") > SEARCH_CHARS_MAX:
        raise InvalidRequest(f"search: at most {SEARCH_CHARS_MAX} characters", field="search")
    for name in where.__struct_fields__:
        value = getattr(where, name)
        most = COMPARED_MAX if name in _COMPARED else VALUES_MAX
        if isinstance(value, tuple) and len(value) > most:
            raise InvalidRequest(f"{name}: at most {most} values", field=name)
        texts = value if isinstance(value, tuple) else (value,)
        if any(isinstance(text, str) and "\0" in text for text in texts):
            raise InvalidRequest(f"{name}: a text contains a NUL character; remove it", field=name)


def tag_of(text: str) -> tuple[str, str | None]:
    """The name of a tag filter, and its value if it has one: `name` or `name=value`."""
    name, mark, value = text.partition("=")
    return name, value if mark else None


Test = Callable[[Session], bool]

LOWER: Final = str.maketrans(ascii_uppercase, ascii_lowercase)
"""Lower case as in the databases: letters A to Z only."""


def matching(state: State, query: SessionQuery) -> list[Session]:
    """Sessions in memory that match a query, unordered."""
    found: Iterable[Session] = _candidates(state, query)
    for test in _tests(state, query):
        found = [session for session in found if test(session)]
    return list(found)


def sorted_page(found: Iterable[Session], query: SessionQuery) -> tuple[Sequence[Session], bool]:
    """The page of a query, and whether more sessions follow."""
    sorting = ORDERS[query.order]
    ordered = sorted(found, key=attrgetter("id"), reverse=sorting.descending)
    if sorting.by != "id":
        values = [getattr(session, sorting.by) for session in ordered]
        indices = [index for index, value in enumerate(values) if value is not None]
        indices.sort(key=values.__getitem__, reverse=sorting.descending)  # stable: ties keep the order by id
        ordered = [
            *map(ordered.__getitem__, indices),
            *(ordered[index] for index, value in enumerate(values) if value is None),
        ]
    after, start = query.after, 0
    if after is not None:
        start = bisect_left(ordered, True, key=lambda session: sorting.is_beyond(sorting.key(session), after=after))
    return ordered[start : start + query.limit], start + query.limit < len(ordered)


def _candidates(state: State, query: SessionQuery) -> Iterable[Session]:
    if not query.where.ids:
        return state.sessions.values()
    named = (state.sessions.get(SessionId(name)) for name in dict.fromkeys(query.where.ids))
    return [session for session in named if session is not None]


def _tests(state: State, query: SessionQuery) -> Iterator[Test]:
    """Predicates of a query, cheap ones first."""
    where, members = query.where, query.members_only
    for name, values in among(where).items():
        yield _is_among(name, frozenset(values))
    for name, since_us, until_us in within(where):
        yield _is_within(name, since_us, until_us)
    if members is not None:
        yield members.has
    if where.failures:
        yield lambda session: session.failure is not None and session.failure.code in where.failures
    for name, value in map(tag_of, where.tags):
        yield _has_tag(name, value)
    if where.search:
        text = where.search.translate(LOWER)
        yield lambda session: text in (session.name or "").translate(LOWER) or text in session.id
    if query.agents is not None or where.devices:
        yield lambda session: any(_matches_place(lease, query) for lease in _leases(state, session))


def _is_among(name: str, values: frozenset[object]) -> Test:
    value = attrgetter(name)
    return lambda session: value(session) in values


def _has_tag(name: str, value: str | None) -> Test:
    return lambda session: name in session.tags and value in (None, session.tags[name])


def _is_within(name: str, since_us: int | None, until_us: int | None) -> Test:
    at = attrgetter(name)

    def test(session: Session) -> bool:
        at_us = at(session)
        return at_us is not None and (since_us or 0) <= at_us and (until_us is None or at_us <= until_us)

    return test


def _leases(state: State, session: Session) -> Iterator[Lease]:
    """Leases of the newest attempt, open or released; of an external allocation, the open ones."""
    yield from state.external_allocations.of(session.id)
    for kernel in state.kernels_in(session):
        lease = state.leases.get(LeaseId(kernel.id))
        if lease is not None:
            yield lease


def _matches_place(lease: Lease, query: SessionQuery) -> bool:
    devices = query.where.devices
    on_agent = query.agents is None or lease.agent_id in query.agents
    return on_agent and (not devices or any(name in amounts for amounts in lease.spec.values() for name in devices))
