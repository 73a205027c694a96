"""Evicted sessions: loads ended sessions that waiting sessions depend on back into memory.

Scheduling passes read memory only; a dependency that is missing there counts as one that can never be met.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from aliquot.service.ports import Store
from aliquot.service.state.state import State
from aliquot_schema.events import Event, Record
from aliquot_schema.ids import SessionId
from aliquot_schema.resources.leases import Lease
from aliquot_schema.sessions import Session


def dependencies_in(events: Iterable[Event]) -> frozenset[SessionId]:
    """Sessions that the waiting sessions in these events depend on."""
    sessions = [event.record for event in events if isinstance(event.record, Session)]
    return frozenset(link.session_id for row in sessions if row.is_pending for link in row.spec.depends_on)


def created_in(events: Iterable[Event]) -> frozenset[SessionId]:
    """Sessions created by these events."""
    return frozenset(
        event.record.id for event in events if isinstance(event.record, Session) and event.record.version == 1
    )


async def recalled(wanted: Iterable[SessionId], *, state: State, store: Store) -> list[tuple[Record, ...]]:
    """Records, from the store, of those sessions that are not in memory; none for array tasks without a session yet.

    Raises:
        StoreUnavailable.
    """
    missing = [name for name in sorted(wanted) if name not in state.sessions]
    return [tuple(_known_here(await store.session_records(name), state)) for name in missing]


@contextmanager
def in_memory(old: Sequence[tuple[Record, ...]], *, state: State, besides: Iterable[SessionId] = ()) -> Iterator[None]:
    """Keep recalled sessions in memory inside the context; afterwards only those that waiting sessions depend on.

    Args:
        besides: further sessions to keep, which may arrive inside the context.
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
    """Records that are safe to load. The store may be ahead of the state: kernels of a new attempt, and leases on
    agents unknown here, are skipped because the following events contain them."""
    is_over = any(isinstance(record, Session) and record.is_ended for record in records)
    for record in records:
        on_unknown_agent = isinstance(record, Lease) and record.agent_id not in state.agents
        if isinstance(record, Session) or (is_over and not on_unknown_agent):
            yield record
