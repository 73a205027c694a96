"""Learning: what the forecast process is taught, from the store when it starts and from events afterwards."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from aliquot.core.foresight.arrivals import KEPT_US as ARRIVALS_KEPT_US
from aliquot.core.foresight.run_times import EndedRun
from aliquot.core.foresight.shown_forecasts import KEPT_US
from aliquot.core.model.snapshot import PendingRow
from aliquot.core.workloads import OWN_ENDS, workload_of
from aliquot.service.foresight.process_messages import Ended, Learned
from aliquot.service.ports import Clock, SessionQuery, Store
from aliquot_schema.events import Event
from aliquot_schema.ids import SessionId
from aliquot_schema.intervals import Intervals
from aliquot_schema.requests import SessionOrder
from aliquot_schema.sessions import ArrayTasks, Session
from aliquot_schema.states import SessionState

SESSIONS_MAX: Final = 100_000
"""Sessions read from the store, the newest."""
PAGE: Final = 500
PAUSE_S: Final = 0.05
"""Pause between two pages, so that commits wait for one page at most."""
UNSENT_MAX: Final = 20_000
"""Items kept for a process that does not read; the oldest are dropped."""


def run_of(session: Session) -> EndedRun | None:
    """The run of an ended session that ended by itself, by its limit or by a cancellation; None for all others."""
    began_us = session.started_us if session.started_us is not None else session.scheduled_us
    if began_us is None or session.ended_us is None:
        return None
    is_own = session.state in (SessionState.COMPLETED, SessionState.CANCELED) or (
        session.failure is not None and session.failure.code in OWN_ENDS
    )
    if not is_own:
        return None
    duration_ms = session.kept_at_start_ms + max(session.ended_us - began_us, 0) // 1000
    return EndedRun(workload=workload_of(session), duration_ms=duration_ms)


def end_of(session: Session) -> Ended | None:
    """The end of a session; None while it lives, for external allocations, and for ends from which nothing is learned.
    The end of a job array lists its canceled tasks."""
    if not session.is_ended or session.ended_us is None or not _counts(session):
        return None
    if session.tasks is not None:
        canceled = session.tasks.canceled
        return Ended(session_id=session.id, at_us=session.ended_us, run=None, tasks=canceled) if canceled else None
    run = run_of(session)
    never_started = session.scheduled_us is None
    return Ended(session_id=session.id, at_us=session.ended_us, run=run) if run is not None or never_started else None


class Learner:
    """Collects what happens for the forecast process."""

    def __init__(self, pending: Mapping[SessionId, PendingRow]) -> None:
        """Args:
        pending: the rows of the sessions that wait now.
        """
        self._pending = pending
        self._unsent: deque[tuple[SessionId, int, Learned]] = deque(maxlen=UNSENT_MAX)

    def __len__(self) -> int:
        return len(self._unsent)

    def on_event(self, event: Event) -> None:
        """Note a submission or an end."""
        session = event.record
        if not isinstance(session, Session):
            return
        learned: Learned | None = None
        if session.version == 1 and session.array_id is None and _counts(session):
            row = self._pending.get(session.id)
            is_first = row is not None and row.version == session.version
            learned = row if is_first else PendingRow.of(session, workload=workload_of(session))
        elif session.is_ended:
            learned = end_of(session)
        if learned is not None:
            self._unsent.append((session.id, session.version, learned))

    def take(self, known: Mapping[SessionId, int] | None = None) -> tuple[Learned, ...]:
        """What was noted since the last call.

        Args:
            known: versions of sessions that the process has been taught from the store.
        """
        versions = known or {}
        taken = tuple(one for name, version, one in self._unsent if version > versions.get(name, 0))
        self._unsent.clear()
        return taken


class PastSessions:
    """Sessions of the last weeks, read from the store page by page, the newest first."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.versions: dict[SessionId, int] = {}
        """Of the sessions read."""

    async def pages(self) -> AsyncIterator[tuple[Learned, ...]]:
        """What they teach.

        Raises:
            StoreUnavailable.
        """
        now_us, after = self._clock.now_us(), None
        while len(self.versions) < SESSIONS_MAX:
            query = SessionQuery(order=SessionOrder.NEWEST, after=after, limit=PAGE)
            found = await self._store.sessions(query)
            recent = [session for session in found if session.queued_us >= now_us - KEPT_US]
            self.versions.update((session.id, session.version) for session in recent)
            yield await asyncio.to_thread(lambda: tuple(_past(recent, since_us=now_us - ARRIVALS_KEPT_US)))  # noqa: B023
            if len(recent) < PAGE:
                return
            after = (found[-1].id,)
            await self._clock.sleep(PAUSE_S)


def _past(sessions: Iterable[Session], *, since_us: int) -> Iterator[Learned]:
    for session in sessions:
        if session.queued_us >= since_us and session.array_id is None and _counts(session):
            row = PendingRow.of(session, workload=workload_of(session))
            yield row if session.tasks is None else replace(row, tasks=_all_tasks(session.tasks))
        end = end_of(session)
        if end is not None:
            yield end


def _all_tasks(tasks: ArrayTasks) -> Intervals:
    sets = (tasks.waiting, tasks.active, tasks.completed, tasks.failed, tasks.canceled)
    return Intervals.joined(span for indices in sets for span in indices.spans)


def _counts(session: Session) -> bool:
    return not session.is_external_allocation
