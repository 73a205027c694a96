"""Lists from memory."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from string import ascii_lowercase, ascii_uppercase
from typing import Final

from aliquot.service.listing.orders import ORDERS
from aliquot.service.listing.terms import among, within
from aliquot.service.ports import SessionQuery
from aliquot.service.state import State
from aliquot_schema.ids import LeaseId, SessionId
from aliquot_schema.leases import Lease
from aliquot_schema.sessions import Session

Test = Callable[[Session], bool]

LOWER: Final = str.maketrans(ascii_uppercase, ascii_lowercase)
"""As the database compares: by the letters A to Z."""


def matching(state: State, query: SessionQuery) -> list[Session]:
    """Those in memory that are asked for, in no order."""
    found: Iterable[Session] = _candidates(state, query)
    for test in _tests(state, query):
        found = [session for session in found if test(session)]
    return list(found)


def sorted_piece(found: Iterable[Session], query: SessionQuery) -> tuple[Sequence[Session], bool]:
    """The page, and whether something follows it."""
    sorting = ORDERS[query.order]
    line = sorted(found, key=attrgetter("id"), reverse=sorting.descending)
    if sorting.by != "id":
        values = [getattr(session, sorting.by) for session in line]
        places = [place for place, value in enumerate(values) if value is not None]
        places.sort(key=values.__getitem__, reverse=sorting.descending)  # those that are alike stay as they were
        line = [*map(line.__getitem__, places), *(line[place] for place, value in enumerate(values) if value is None)]
    after, start = query.after, 0
    if after is not None:
        start = bisect_left(line, True, key=lambda session: sorting.is_beyond(sorting.key(session), after=after))
    return line[start : start + query.limit], start + query.limit < len(line)


def _candidates(state: State, query: SessionQuery) -> Iterable[Session]:
    if not query.where.ids:
        return state.sessions.values()
    named = (state.sessions.get(SessionId(name)) for name in dict.fromkeys(query.where.ids))
    return [session for session in named if session is not None]


def _tests(state: State, query: SessionQuery) -> Iterator[Test]:
    """One after the other, the cheap ones first."""
    where, members = query.where, query.members_only
    for name, values in among(where).items():
        yield _is_among(name, frozenset(values))
    for name, since_us, until_us in within(where):
        yield _is_within(name, since_us, until_us)
    if members is not None:
        yield members.has
    if where.failures:
        yield lambda session: session.failure is not None and session.failure.code in where.failures
    if where.search:
        text = where.search.translate(LOWER)
        yield lambda session: text in (session.name or "").translate(LOWER) or text in session.id
    if query.agents is not None or where.devices:
        yield lambda session: any(_is_there(lease, query) for lease in _leases(state, session))


def _is_among(name: str, values: frozenset[object]) -> Test:
    value = attrgetter(name)
    return lambda session: value(session) in values


def _is_within(name: str, since_us: int | None, until_us: int | None) -> Test:
    at = attrgetter(name)

    def test(session: Session) -> bool:
        at_us = at(session)
        return at_us is not None and (since_us or 0) <= at_us and (until_us is None or at_us <= until_us)

    return test


def _leases(state: State, session: Session) -> Iterator[Lease]:
    """Of its newest attempt, given back or not; of work outside, what it holds now."""
    yield from state.outside.of(session.id)
    for kernel in state.kernels_in(session):
        lease = state.leases.get(LeaseId(kernel.id))
        if lease is not None:
            yield lease


def _is_there(lease: Lease, query: SessionQuery) -> bool:
    devices = query.where.devices
    on_agent = query.agents is None or lease.agent_id in query.agents
    return on_agent and (not devices or any(name in amounts for amounts in lease.spec.values() for name in devices))
