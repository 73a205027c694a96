"""Recorder: keeps the forecasts of sessions, and closes each record when its outcome is known.

The forecast of a job array is for the start of its first task, and that task's start and end are the truth. Its
later tasks are forecast and shown, but not judged: they share one request, so they would count one error many times.

Records are written in the background; while the store cannot be written they wait in memory, the newest ones.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Iterable
from typing import Final

from aliquot.core.foresight.shown_forecasts import (
    AGES_S,
    DAY_US,
    ForecastOutcome,
    ForecastRecord,
    PackedRecord,
    SessionOutcome,
    ShownForecast,
)
from aliquot.service.foresight.learning import run_of
from aliquot.service.foresight.ports import ForecastStore
from aliquot.service.metrics.counters import ForecastMeasures
from aliquot.service.ports import Store
from aliquot.service.state.forecast_board import STARTED_KEPT
from aliquot.service.state.state import State
from aliquot_schema.events import Event
from aliquot_schema.ids import SessionId, task_id
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState

FIRST_US_MAX: Final = 15 * 60 * 1_000_000
"""A forecast made later than this after the submission is shown, but is not recorded as the one at submission."""
OPEN_US: Final = 14 * DAY_US
"""Records older than this are not awaited any more after a restart."""
UNWRITTEN_MAX: Final = 20_000
SCHEDULED: Final = "session.scheduled"
_OPEN: Final = (ForecastOutcome.WAITING, ForecastOutcome.LATE)


class Recorder:
    """Records of one leader's term."""

    def __init__(self, state: State, *, store: ForecastStore, measures: ForecastMeasures) -> None:
        self._state = state
        self._store = store
        self._measures = measures
        self._records: dict[SessionId, tuple[PackedRecord, ...]] = {}
        """Of sessions that wait, or run for the first time; by age."""
        self._first_tasks: dict[SessionId, SessionId] = {}
        """The task that started first of each job array with records."""
        self._due: list[tuple[int, SessionId]] = []
        """When a session has to be checked: its P90 has passed, or its forecast is to be recorded again, of which the
        next time alone is kept."""
        self._unwritten: deque[PackedRecord | SessionOutcome] = deque(maxlen=UNWRITTEN_MAX)
        self._scores: deque[ForecastRecord] = deque(maxlen=UNWRITTEN_MAX)
        self._arrived: list[Event] | None = None
        """Events that arrived while the records are loaded; None = they are not being loaded."""
        self._writing = asyncio.Lock()
        self._at_once = 0

    async def load(self, *, events: Store, now_us: int) -> None:
        """Read the open records; those of sessions that moved on while no server recorded it are closed.

        Nothing changes before everything is read, so a failed load can be repeated. Events that arrive meanwhile are
        applied at the end.

        Raises:
            StoreUnavailable.
        """
        self._arrived = [] if self._arrived is None else self._arrived
        settled = await self._store.settled(limit=STARTED_KEPT)
        opened: dict[SessionId, tuple[PackedRecord, ...]] = {}
        for record in await self._store.open_records(since_us=now_us - OPEN_US):
            opened[record.session_id] = (*opened.get(record.session_id, ()), record)
        starts_us: dict[SessionId, int | None] = {}
        for session_id, records in opened.items():
            if self._has_moved_on(session_id, records):
                is_open = records[0].outcome in _OPEN
                starts_us[session_id] = await self._read_start_us(session_id, events) if is_open else None
        for record in settled:
            self._state.board.put(record)
        for session_id, records in opened.items():
            self._records[session_id] = records
            for record in records:
                self._await(record)
        for session_id, start_us in starts_us.items():
            self._catch_up(session_id, start_us)
        arrived, self._arrived = self._arrived, None
        for event in arrived:
            if self._name(event) in self._records or self._name(event) not in opened:
                self._take(event)

    def on_event(self, event: Event) -> None:
        """Note what an event says about a session with records."""
        if self._arrived is None:
            self._take(event)
        else:
            self._arrived.append(event)

    def _take(self, event: Event) -> None:
        session = event.record
        if not isinstance(session, Session) or session.is_external_allocation:
            return
        name = session.array_id or session.id
        records = self._records.get(name)
        if records is None:
            if event.kind == SCHEDULED and session.attempt == 1 and self._is_first(session):
                self._at_once += 1
            return
        if records[0].outcome in _OPEN:
            if event.kind == SCHEDULED:
                self._settle(name, ForecastOutcome.STARTED, settled_us=session.scheduled_us)
                if session.array_id is not None:
                    self._first_tasks[name] = session.id
            elif session.array_id is None and (session.is_ended or session.state is SessionState.HELD):
                self._settle(name, ForecastOutcome.CANCELED, settled_us=event.at_us)
        elif (session.is_ended or session.is_pending) and session.id == self._first_tasks.get(name, name):
            is_own = session.attempt == 1 and run_of(session) is not None
            if is_own and session.ended_us is not None:
                self._end(name, session.ended_us)
            self._forget(name)

    def note(self, forecasts: Iterable[ShownForecast]) -> None:
        """Record the first forecast of each session that was submitted lately; none before all records are loaded."""
        if self._arrived is not None:
            return
        for one in forecasts:
            forecast = one.forecast
            session = self._state.sessions.get(forecast.session_id)
            if session is None or session.state is not SessionState.QUEUED:
                continue
            # One that was held after its first forecast and released since has been recorded already.
            is_known = session.id in self._records or session.id in self._state.board.first
            is_first = not _has_started(session) and not is_known
            if is_first and forecast.made_us - session.queued_us <= FIRST_US_MAX:
                self._add(PackedRecord.of(ForecastRecord(session_id=session.id, age_s=0, shown=one)))
                self._measures.count_first(one)

    def tick(self, now_us: int) -> None:
        """Check the sessions whose P90 has passed, or whose forecast is to be recorded again."""
        while self._due and self._due[0][0] <= now_us:
            at_us, session_id = heapq.heappop(self._due)
            records = self._records.get(session_id, ())
            session, newest = self._state.sessions.get(session_id), self._state.board.now.get(session_id)
            if not records or records[0].outcome not in _OPEN or session is None:
                continue
            if records[0].outcome is ForecastOutcome.WAITING and _is_late(records[0], now_us):
                self._settle(session_id, ForecastOutcome.LATE, settled_us=None)
            ages = {record.age_s for record in self._records[session_id]}
            for age_s in AGES_S:
                if age_s not in ages and newest is not None and now_us >= session.queued_us + age_s * 1_000_000:
                    record = ForecastRecord(session_id=session_id, age_s=age_s, shown=newest.shown())
                    self._add(PackedRecord.of(record))
            self._await_age(session, after_us=at_us)

    def scores(self) -> tuple[ForecastRecord, ...]:
        """Records about which something became known since the last call."""
        taken = tuple(self._scores)
        self._scores.clear()
        return taken

    async def days(self) -> tuple[tuple[int, int], ...]:
        """(day, sessions that started before any forecast), by day: all that `flush` has returned, and no more.

        Raises:
            StoreUnavailable.
        """
        async with self._writing:
            return await self._store.days()

    async def flush(self, *, now_us: int) -> tuple[tuple[int, int], ...]:
        """Write what has not been written; returns (day, sessions that started before any forecast) written.

        Raises:
            StoreUnavailable: it is written by a later call.
        """
        async with self._writing:
            while self._unwritten:
                batch = list(self._unwritten)
                added = [one for one in batch if isinstance(one, PackedRecord)]
                settled = [one for one in batch if isinstance(one, SessionOutcome)]
                if added:
                    await self._store.add(added)
                if settled:
                    await self._store.settle(settled)
                for _ in range(min(len(batch), len(self._unwritten))):
                    self._unwritten.popleft()
            if not self._at_once:
                return ()
            day, count = now_us // DAY_US, self._at_once
            await self._store.count_at_once(day, count)
            self._at_once -= count
            return ((day, count),)

    def _add(self, record: PackedRecord) -> None:
        self._records[record.session_id] = (*self._records.get(record.session_id, ()), record)
        self._unwritten.append(record)
        self._await(record)

    def _await(self, record: PackedRecord) -> None:
        session = self._state.sessions.get(record.session_id)
        if not record.age_s:
            self._state.board.put(record)
            if record.late_us is not None:
                heapq.heappush(self._due, (record.late_us, record.session_id))
            if session is not None:
                self._await_age(session, after_us=session.queued_us)

    def _await_age(self, session: Session, *, after_us: int) -> None:
        """Check a session again at the age at which its forecast is recorded next, if that is `after_us`."""
        ages_us = [session.queued_us + age_s * 1_000_000 for age_s in AGES_S]
        if after_us in ages_us[:-1]:
            heapq.heappush(self._due, (ages_us[ages_us.index(after_us) + 1], session.id))

    def _settle(self, session_id: SessionId, outcome: ForecastOutcome, *, settled_us: int | None) -> None:
        settlement = SessionOutcome(session_id=session_id, outcome=outcome, settled_us=settled_us)
        self._change(settlement)
        if outcome not in (*_OPEN, ForecastOutcome.STARTED):
            self._forget(session_id)

    def _forget(self, session_id: SessionId) -> None:
        del self._records[session_id]
        self._first_tasks.pop(session_id, None)

    def _is_first(self, session: Session) -> bool:
        """Whether it is no task of a job array, or the first one of its array that has started."""
        array = self._state.sessions.get(session.array_id or session.id)
        return session.array_id is None or (array is not None and first_task(array) == session.id)

    def _end(self, session_id: SessionId, ended_us: int) -> None:
        first = self._records[session_id][0]
        self._change(
            SessionOutcome(session_id=session_id, outcome=first.outcome, settled_us=first.settled_us, ended_us=ended_us)
        )

    def _change(self, settlement: SessionOutcome) -> None:
        records = tuple(settlement.of(record) for record in self._records[settlement.session_id])
        self._records[settlement.session_id] = records
        self._unwritten.append(settlement)
        known = [record.record() for record in records]
        self._scores.extend(known)
        self._state.board.put(records[0])
        self._measures.judge(known[0])

    def _has_moved_on(self, session_id: SessionId, records: tuple[PackedRecord, ...]) -> bool:
        """Whether a session with open records waits no longer."""
        session = self._state.sessions.get(session_id)
        is_waiting = session is not None and session.is_pending and not _has_started(session)
        return not (is_waiting and records[0].outcome in _OPEN)

    async def _read_start_us(self, session_id: SessionId, events: Store) -> int | None:
        """When a session, or the first task of a job array, started; None = it has not, or that is not known."""
        session = self._state.sessions.get(session_id)
        task = None if session is None else first_task(session)
        steps = await events.session_steps(task or session_id, kinds=(SCHEDULED,), before=None, limit=50)
        starts = [step.record.scheduled_us for step in steps if isinstance(step.record, Session)]
        return starts[0] if starts else None

    def _catch_up(self, session_id: SessionId, start_us: int | None) -> None:
        """Close the records of a session that has moved on."""
        session = self._state.sessions.get(session_id)
        task = None if session is None else first_task(session)
        if self._records[session_id][0].outcome in _OPEN:
            if start_us is not None:
                self._settle(session_id, ForecastOutcome.STARTED, settled_us=start_us)
            elif session is not None and session.ended_us is not None:
                self._settle(session_id, ForecastOutcome.CANCELED, settled_us=session.ended_us)
            else:
                made_us = self._records[session_id][0].record().made_us
                self._settle(session_id, ForecastOutcome.UNKNOWN, settled_us=made_us)
        if session_id not in self._records:
            return
        if task is not None:
            session, self._first_tasks[session_id] = self._state.sessions.get(task), task
        if session is None or session.is_ended or session.is_pending:
            if session is not None and session.attempt == 1 and session.ended_us is not None and run_of(session):
                self._end(session_id, session.ended_us)
            self._forget(session_id)

    @staticmethod
    def _name(event: Event) -> SessionId | None:
        """The session with records, or the job array, that an event is about."""
        session = event.record
        return session.array_id or session.id if isinstance(session, Session) else None


def first_task(array: Session) -> SessionId | None:
    """The task of a job array that started first: tasks start in the order of their indices. None = none has."""
    if array.tasks is None:
        return None
    started = (*array.tasks.active.spans, *array.tasks.completed.spans, *array.tasks.failed.spans)
    return task_id(array.id, index=min(started)[0]) if started else None


def _has_started(session: Session) -> bool:
    return session.attempt > 0 or first_task(session) is not None


def _is_late(record: PackedRecord, now_us: int) -> bool:
    return record.late_us is not None and now_us >= record.late_us
