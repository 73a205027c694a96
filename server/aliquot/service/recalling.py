"""Recalling: ended sessions that left memory, and that others depend on, are taken back into it.

Passes look in memory alone, and take a dependency that is not there for one that can never be met.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from aliquot.service.ports import Store
from aliquot.service.state import State
from aliquot_schema.events import Event, Record
from aliquot_schema.ids import SessionId
from aliquot_schema.leases import Lease
from aliquot_schema.sessions import Session


def dependencies_in(events: Iterable[Event]) -> frozenset[SessionId]:
    """What sessions that wait, as these events tell of them, depend on."""
    told = [event.record for event in events if isinstance(event.record, Session)]
    return frozenset(link.session_id for row in told if row.is_pending for link in row.spec.depends_on)


def born_in(events: Iterable[Event]) -> frozenset[SessionId]:
    """Sessions that these events tell of from their beginning."""
    return frozenset(
        event.record.id for event in events if isinstance(event.record, Session) and event.record.version == 1
    )


async def recalled(wanted: Iterable[SessionId], *, state: State, store: Store) -> list[tuple[Record, ...]]:
    """What the store has of sessions that are not in memory; nothing of tasks that were not split off yet.

    Raises:
        StoreUnavailable: the store cannot be read now.
    """
    missing = [name for name in sorted(wanted) if name not in state.sessions]
    return [tuple(_known_here(await store.session_records(name), state)) for name in missing]


@contextmanager
def in_memory(old: Sequence[tuple[Record, ...]], *, state: State, besides: Iterable[SessionId] = ()) -> Iterator[None]:
    """Have recalled sessions in memory at least until the end; then they stay if anybody waits for them.

    Args:
        besides: sessions that are to stay in the same way once they are there.
    """
    names = Counter(record.id for records in old for record in records if isinstance(record, Session))
    names.update(besides)
    state.kept.update(names)
    try:
        for records in old:
            state.recall(records)
        yield
    finally:
        state.kept -= names


def _known_here(records: Sequence[Record], state: State) -> Iterator[Record]:
    """The store may be ahead of the state: of what a session does again, and of agents that are not known here, the
    next events tell."""
    is_over = any(isinstance(record, Session) and record.is_ended for record in records)
    for record in records:
        is_of_a_stranger = isinstance(record, Lease) and record.agent_id not in state.agents
        if isinstance(record, Session) or (is_over and not is_of_a_stranger):
            yield record
