"""Forecasting: the leader's loop that asks the forecast process, and puts the answers on the board.

A session is asked about as soon as a pass has left it waiting; all sessions together when the state has changed, at
most once a minute and for at most a twentieth of the time. While the process is down, the last forecasts stay.

Events are only queued when they are committed. The loops here work through them, so no request waits for that.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.foresight.forecast import SAMPLES, HypotheticalSession
from aliquot.core.foresight.shown_forecasts import KEPT_US, ForecastRecord
from aliquot.service.foresight.learning import Learner, PastSessions
from aliquot.service.foresight.ports import BoardRelay, ForecastStore
from aliquot.service.foresight.process_messages import (
    Days,
    Finished,
    ForecastRequest,
    ForecastsMade,
    HistoryRead,
    HypotheticalForecastsMade,
    Learned,
    LearningBatch,
    ScoredRecords,
    SnapshotDifference,
    ToProcess,
)
from aliquot.service.foresight.records import Recorder
from aliquot.service.foresight.relay import EVERY_S as PUBLISH_S
from aliquot.service.foresight.relay import BoardPublisher
from aliquot.service.foresight.supervisor import Channel, ProcessEnded, RestartDelay, forecast_process
from aliquot.service.metrics.counters import ForecastMeasures
from aliquot.service.ports import Clock, Store, StoreUnavailable
from aliquot.service.retention import ClockJumps
from aliquot.service.state.forecast_board import HypotheticalQuestion, QuestionQueue
from aliquot.service.state.journal import Journal
from aliquot.service.state.snapshots import take
from aliquot.service.state.state import State
from aliquot_schema.async_tasks import raise_if_canceled
from aliquot_schema.events import Entity, Event
from aliquot_schema.ids import SessionId
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState

T = TypeVar("T")

log: Final = logging.getLogger("aliquot.forecasts")

COALESCE_S: Final = 0.25
"""Submissions within this time are asked about together."""
SUBMITTED: Final = "session.queued"
LOOK_S: Final = 1.0
IDLE_S_MAX: Final = 30.0
"""The process is started this long after the term, if no session waits before."""
REFRESH_S: Final = 60.0
SHARE: Final = 20
"""The process rests for this many times the duration of the last forecast of all sessions; `FRESH_SHARE` times after
one of single sessions."""
FRESH_SHARE: Final = 2
LONG_QUEUE: Final = 2_000
"""Of a longer queue the first sessions are forecast every minute, all of them every `LONG_REFRESH_S`."""
LONG_REFRESH_S: Final = 600.0
LONG_SAMPLES: Final = 16
ANSWER_S_MAX: Final = 900.0
CLOSE_S: Final = 5.0
UNSENT_MAX: Final = 1_000
PAGE: Final = 100
TEND_FIRST_S: Final = 60.0
TEND_EVERY_S: Final = 600.0
REMOVED_MAX: Final = 500
STARTING: Final = "the forecast process is starting"
ENDED: Final = "the forecast process has ended and is being restarted"


class Forecasting:
    """Forecasts of one leader's term. `run` ends only by cancellation."""

    def __init__(
        self,
        *,
        state: State,
        journal: Journal,
        clock: Clock,
        events: Store,
        store: ForecastStore,
        relay: BoardRelay | None,
        epoch: int,
        jumps: ClockJumps,
        measures: ForecastMeasures,
        questions: QuestionQueue,
    ) -> None:
        """Queues the events of sessions from now on.

        Args:
            relay: None = there are no followers.
            questions: questions about sessions that are not submitted.
        """
        self._state, self._clock, self._events, self._store = state, clock, events, store
        self._jumps, self._measures = jumps, measures
        self._questions = questions
        self._learner = Learner(state.pending)
        self._recorder = Recorder(state, store=store, measures=measures)
        self._publisher = None if relay is None else BoardPublisher(state.board, relay=relay, epoch=epoch)
        self._without_forecast: dict[SessionId, None] = dict.fromkeys(state.pending)
        self._days: list[tuple[int, int]] = []
        self._new_events: deque[Event] = deque()
        """Committed events that `_apply_events` has not worked through yet."""
        self._number = 0
        self._asked_revision = -1
        self._due_s: dict[str, float] = {}
        """Monotonic times before which nothing of a kind is asked, see `_next_kind`."""
        self.pid: int | None = None
        """Of the forecast process; None = there is none."""
        journal.subscribe(self._new_events.append, to=(Entity.SESSION,))

    async def run(self) -> None:
        """Make, record and publish forecasts until cancelled."""
        with self._questions.served():
            async with asyncio.TaskGroup() as loops:
                loops.create_task(self._keep(), name="forecast records")
                loops.create_task(self._supervise(), name="forecast process")

    async def close(self) -> None:
        """Write the last records, within `CLOSE_S`."""
        self._apply_events()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._write()

    def _apply_events(self) -> None:
        while self._new_events:
            self._on_event(self._new_events.popleft())

    def _on_event(self, event: Event) -> None:
        session = event.record
        if not isinstance(session, Session):
            return
        self._learner.on_event(event)
        if event.kind != SUBMITTED:  # a new session has no forecast yet
            self._recorder.on_event(event)
        if session.state is SessionState.QUEUED:
            if self._state.board.now.get(session.id) is None and session.id not in self._without_forecast:
                self._without_forecast[session.id] = None
        else:
            self._without_forecast.pop(session.id, None)
            self._state.board.withdraw(session.id)

    async def _keep(self) -> None:
        """Write records, and remove old ones."""
        while True:
            try:
                await self._recorder.load(events=self._events, now_us=self._clock.now_us())
                break
            except StoreUnavailable:
                await self._clock.sleep(LOOK_S)
        tend_at_s = self._clock.monotonic() + TEND_FIRST_S
        publish_at_s = 0.0
        while True:
            self._apply_events()
            now_us = self._clock.now_us()
            self._state.board.tick(now_us)
            self._recorder.tick(now_us)
            await self._write()
            with suppress(StoreUnavailable):
                now_s = self._clock.monotonic()
                if self._publisher is not None and now_s >= publish_at_s:
                    publish_at_s = now_s + PUBLISH_S
                    await self._publisher.publish()
                if now_s >= tend_at_s:
                    tend_at_s = now_s + TEND_EVERY_S
                    await self._remove_old()
            await self._clock.sleep(LOOK_S)

    async def _write(self) -> None:
        """Write records; while the store cannot be written, which it logs itself, they wait."""
        with suppress(StoreUnavailable):
            self._days.extend(await self._recorder.flush(now_us=self._clock.now_us()))

    async def _remove_old(self) -> None:
        if self._jumps.is_steady():
            while await self._store.remove(self._clock.wall_us() - KEPT_US, limit=REMOVED_MAX) == REMOVED_MAX:
                await self._clock.sleep(COALESCE_S)

    async def _supervise(self) -> None:
        delay = RestartDelay()
        with suppress(TimeoutError):
            async with asyncio.timeout(IDLE_S_MAX):
                await self._until_needed()
        while True:
            began_s = self._clock.monotonic()
            self._state.board.lack(STARTING)
            try:
                async with forecast_process() as channel:
                    self.pid = channel.pid
                    await self._serve(channel)
            except (ProcessEnded, TimeoutError, OSError, StoreUnavailable) as error:
                log.warning("the forecast process has ended and is restarted: %s", error or type(error).__name__)
            finally:
                self.pid = None
            self._state.board.lack(ENDED)
            self._measures.restarts.inc()
            await self._clock.sleep(delay.next_s(lived_s=self._clock.monotonic() - began_s))

    async def _until_needed(self) -> None:
        self._apply_events()
        while not self._fresh() and not len(self._questions):
            await self._clock.sleep(COALESCE_S)
            self._apply_events()

    async def _serve(self, channel: Channel) -> None:
        async with asyncio.timeout(ANSWER_S_MAX):
            await channel.receive()
        await self._send_learned(channel)
        difference = SnapshotDifference()
        self._due_s.clear()
        self._asked_revision = -1
        while True:
            kind = await self._next_kind(channel)
            question = self._questions.take() if kind == "hypothetical" else None
            await channel.send(self._news())
            ask = self._ask(kind, () if question is None else question.sessions)
            await channel.send(difference.messages(ask))
            began_s = self._clock.monotonic()
            async with asyncio.timeout(ANSWER_S_MAX):
                await self._receive(channel, ask, question)
            self._rest(kind, took_s=self._clock.monotonic() - began_s)

    async def _send_learned(self, channel: Channel) -> None:
        """Send the history. What happens meanwhile is sent afterwards, unless it was read from the store.

        An outcome is written some time after it has become known, so what was read of a record may be from before or
        after that; records that the recorder knows outcomes of are sent again as they are now.
        """
        self._apply_events()
        await self._write()
        self._learner.take()
        past = PastSessions(self._events, self._clock)
        async for learned in past.pages():
            await channel.send([LearningBatch(learned=learned, is_history=True)])
        last: ForecastRecord | None = None
        since_us = self._clock.now_us() - KEPT_US
        while records := await self._store.page(last, since_us=since_us, limit=PAGE):
            await channel.send([ScoredRecords(records=records, is_history=True)])
            last = records[-1]
        self._days = list(await self._recorder.days())
        self._apply_events()
        scored = [ScoredRecords(records=part, is_history=True) for part in _parts(self._recorder.scores())]
        since = map(_learning_batch, _parts(self._learner.take(past.versions)))
        await channel.send([*scored, HistoryRead(), *since])

    async def _next_kind(self, channel: Channel) -> str:
        """Wait until something is to be asked; returns what: `hypothetical`, `fresh`, `all`, `head` of a long queue,
        or `long`."""
        while True:
            await self._clock.sleep(COALESCE_S)
            raise_if_canceled()
            self._apply_events()
            if channel.has_ended:
                raise ProcessEnded("it has ended")
            if len(self._learner) > UNSENT_MAX:
                await channel.send(self._news())
            now_s = self._clock.monotonic()
            due = [kind for kind in self._wanted_kinds() if now_s >= self._due_s.get(kind, 0.0)]
            if due:
                return due[0]

    def _wanted_kinds(self) -> Iterator[str]:
        if len(self._questions):
            yield "hypothetical"
        if self._fresh():
            yield "fresh"
        if self._state.pending and self._state.revision != self._asked_revision:
            yield from ("head", "long") if len(self._state.pending) > LONG_QUEUE else ("all",)

    def _fresh(self) -> tuple[SessionId, ...]:
        """Sessions without a forecast that the last pass has left waiting."""
        pending, seen = self._state.pending, self._state.verdicts
        return tuple(name for name in self._without_forecast if name in pending and name in seen)

    def _ask(self, kind: str, hypothetical: tuple[HypotheticalSession, ...]) -> ForecastRequest:
        wanted = self._fresh() if kind == "fresh" else None
        snapshot = take(self._state)
        if kind != "hypothetical":
            for session_id in self._fresh():
                del self._without_forecast[session_id]
        if kind in ("all", "long"):
            self._asked_revision = snapshot.revision
        self._number += 1
        is_long = len(self._state.pending) > LONG_QUEUE
        return ForecastRequest(
            number=self._number,
            snapshot=replace(snapshot, quotas=dict(snapshot.quotas), backlogs=dict(snapshot.backlogs)),
            policy=self._state.rules,
            now_us=self._clock.now_us(),
            wanted=wanted,
            first_rows=LONG_QUEUE if is_long and kind != "long" else None,
            samples=LONG_SAMPLES if kind == "long" else SAMPLES,
            hypothetical=hypothetical,
        )

    async def _receive(self, channel: Channel, ask: ForecastRequest, question: HypotheticalQuestion | None) -> None:
        """Put the answer on the board, and record first forecasts; answer a question."""
        while True:
            message = await channel.receive()
            if isinstance(message, ForecastsMade) and message.number == ask.number:
                self._apply_events()
                forecasts = [one for one in message.forecasts if self._is_queued(one.forecast.session_id)]
                self._recorder.note(forecasts)
                await self._write()
                self._apply_events()
                self._state.board.show(one for one in forecasts if self._is_queued(one.forecast.session_id))
            elif isinstance(message, HypotheticalForecastsMade) and message.number == ask.number:
                if question is not None and not question.answer.done():
                    question.answer.set_result(message.forecasts)
            elif isinstance(message, Finished) and message.number == ask.number:
                is_whole = ask.wanted is None and question is None
                self._state.board.report(message.accuracy, made_us=ask.now_us if is_whole else None)
                self._measures.seconds.observe(message.took_s)
                return

    def _rest(self, kind: str, *, took_s: float) -> None:
        now_s = self._clock.monotonic()
        is_single = kind in ("fresh", "hypothetical")
        least_s = {"fresh": 0.0, "hypothetical": 0.0, "long": LONG_REFRESH_S}.get(kind, REFRESH_S)
        self._due_s[kind] = now_s + max(least_s, took_s * (FRESH_SHARE if is_single else SHARE))

    def _news(self) -> list[ToProcess]:
        days, self._days = tuple(self._days), []
        return [
            *map(_learning_batch, _parts(self._learner.take())),
            *(ScoredRecords(records=part) for part in _parts(self._recorder.scores())),
            Days(at_once=days),
        ]

    def _is_queued(self, session_id: SessionId) -> bool:
        session = self._state.sessions.get(session_id)
        return session is not None and session.state is SessionState.QUEUED


def _learning_batch(learned: tuple[Learned, ...]) -> LearningBatch:
    return LearningBatch(learned=learned)


def _parts(items: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    """What is sent in one message, see `process_messages.ROWS_MAX`."""
    for first in range(0, len(items), PAGE):
        yield items[first : first + PAGE]


class ForecastPlan(Struct, frozen=True, kw_only=True):
    """Forecasts of one server."""

    store: ForecastStore
    relay: BoardRelay | None
    """None = there are no followers."""

    events: Store

    def begin(
        self,
        *,
        state: State,
        journal: Journal,
        clock: Clock,
        epoch: int,
        jumps: ClockJumps,
        measures: ForecastMeasures,
        questions: QuestionQueue,
    ) -> Forecasting:
        """The forecasts of one term as leader."""
        return Forecasting(
            state=state,
            journal=journal,
            clock=clock,
            events=self.events,
            store=self.store,
            relay=self.relay,
            epoch=epoch,
            jumps=jumps,
            measures=measures,
            questions=questions,
        )
