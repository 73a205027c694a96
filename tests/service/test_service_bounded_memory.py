"""Ended sessions are dropped from memory: a server's memory does not grow with its history."""

from collections import deque
from collections.abc import Iterator

from msgspec.structs import replace

import store_records as make
from aliquot.core.prediction import Predictor
from aliquot.service.state.rows import QueueRows
from aliquot.service.state.state import State
from aliquot_schema.events import Record
from aliquot_schema.resources.leases import EndEvidence
from aliquot_schema.states import KernelState, SessionState
from service_events import event_of

KEPT = 100
SESSIONS = 3000


def apply_event(state: State, record: Record) -> None:
    """The next event."""
    kind = f"{type(record).__name__.lower()}.changed"
    state.apply(event_of(record, kind, number=state.revision + 1, at_us=state.revision))


def live_and_end(state: State, number: int) -> None:
    """A whole session, from its submission to its end, with its kernel and its lease."""
    queued = make.session(idempotency_key=f"key {number}")
    queued = replace(queued, spec=replace(queued.spec, argv=("python", f"train_{number}.py")))
    running = make.moved(queued, SessionState.RUNNING, attempt=1, started_us=queued.queued_us)
    kernel = make.kernel(running)
    lease = make.lease(kernel)
    apply_event(state, queued)
    apply_event(state, running)
    apply_event(state, kernel)
    apply_event(state, lease)
    exited = replace(kernel, version=2, state=KernelState.EXITED, ended_us=running.queued_us + 10**6)
    apply_event(state, exited)
    released = replace(lease, version=2, released_us=exited.ended_us, evidence=EndEvidence.EXIT_FILE)
    apply_event(state, released)
    apply_event(state, make.moved(running, SessionState.COMPLETED, ended_us=exited.ended_us))
    state.queue_rows.queue()  # both as in every pass
    state.running_rows.rows()


def large(part: object, path: str, *, seen: set[int]) -> Iterator[tuple[str, int]]:
    """Collections anywhere with more entries than sessions are kept."""
    if id(part) in seen or isinstance(part, Predictor | QueueRows):  # bounded; emptied by every pass
        return
    seen.add(id(part))
    if isinstance(part, dict | list | set | deque) and len(part) > 2 * KEPT:
        yield path, len(part)
    for name, value in getattr(part, "__dict__", {}).items():
        yield from large(value, f"{path}.{name}", seen=seen)


def test_memory_does_not_grow_with_the_number_of_ended_sessions() -> None:
    state = State(ended_kept=KEPT)
    apply_event(state, make.agent())
    for number in range(SESSIONS):
        live_and_end(state, number)
    assert len(state.sessions) == KEPT
    assert list(large(state, "state", seen=set())) == []


def test_sessions_deleted_from_the_store_leave_memory_unless_they_are_needed() -> None:
    state = State(ended_kept=KEPT)
    apply_event(state, make.agent())
    for number in range(3):
        live_and_end(state, number)
    first, second, third = state.sessions
    state.kept[second] += 1
    stranger = make.session().id
    assert state.forget([first, second, stranger]) == [first, stranger]
    assert list(state.sessions) == [second, third]
    assert not state.ended_complete
    assert state.by_key(make.ALICE, "key 0") is None
    assert state.by_key(make.ALICE, "key 1") is not None
