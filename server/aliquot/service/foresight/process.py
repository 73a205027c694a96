"""Forecast process: answers the leading server's requests for forecasts, at low priority, one at a time.

Started by `aliquot.service.foresight.supervisor` with the descriptor of a socket pair; it ends when the server's end
is closed, even in the middle of an answer. It opens no file and no connection, and keeps nothing.
"""

import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from aliquot.core.foresight.arrivals import ArrivalHistory
from aliquot.core.foresight.forecast import forecast_all
from aliquot.core.foresight.run_times import RunHistory
from aliquot.core.foresight.scoring import ForecastScorer
from aliquot.core.foresight.shown_forecasts import ForecastRecord, ShownForecast
from aliquot.core.model.snapshot import PendingRow, Snapshot
from aliquot.service.foresight.process_messages import (
    ENCODER,
    Days,
    Finished,
    ForecastRequest,
    ForecastsMade,
    FromProcess,
    HistoryRead,
    HypotheticalForecastsMade,
    Learned,
    LearningBatch,
    ProcessReady,
    RowChanges,
    ScoredRecords,
    SnapshotMirror,
    ToProcess,
    learned_us,
    read_message,
)
from aliquot_schema.ids import SessionId

NICE: Final = 15
"""Added to the priority of the server's process: forecasts take only processor time that is left over."""
FORECASTS_MAX: Final = 200
"""Forecasts in one message."""


class Forecaster:
    """The histories and the answers made from them."""

    def __init__(self) -> None:
        self._runs = RunHistory()
        self._arrivals = ArrivalHistory()
        self._scores = ForecastScorer()
        self._mirror = SnapshotMirror()
        self._past: list[Learned] = []
        self._past_records: dict[tuple[SessionId, int], ForecastRecord] = {}
        """By session and age."""

    def take(self, message: ToProcess) -> list[FromProcess]:
        """Learn from a message, or answer it."""
        match message:
            case LearningBatch(is_history=True, learned=learned):
                self._past.extend(learned)
            case LearningBatch(learned=learned):
                self._learn(learned)
            case ScoredRecords(is_history=True, records=records):
                self._past_records.update(((record.session_id, record.age_s), record) for record in records)
            case ScoredRecords(records=records):
                self._scores.learn(records)
            case HistoryRead():
                self._end_history()
            case Days(at_once=days):
                self._scores.note_days(days)
            case RowChanges():
                self._mirror.change(message)
            case ForecastRequest():
                return self._answer(message)
        return []

    def _end_history(self) -> None:
        self._learn(sorted(self._past, key=learned_us))
        self._scores.replay(self._past_records.values())
        self._past, self._past_records = [], {}

    def _learn(self, learned: Iterable[Learned]) -> None:
        for one in learned:
            if isinstance(one, PendingRow):
                self._arrivals.learn(one)
            elif one.run is None:
                self._arrivals.cancelled(one.session_id, at_us=one.at_us, tasks=one.tasks)
            else:
                self._runs.learn(one.run)
                self._arrivals.ended(one.session_id, run_ms=one.run.duration_ms)

    def _answer(self, ask: ForecastRequest) -> list[FromProcess]:
        began = time.process_time()
        report = self._scores.report(runs=self._runs.total, now_us=ask.now_us)
        snapshot = self._mirror.snapshot(ask)
        parts: list[FromProcess]
        if ask.hypothetical:
            parts = [
                HypotheticalForecastsMade(
                    number=ask.number, forecasts=tuple(self._hypothetical_forecasts(ask, snapshot))
                )
            ]
        else:
            forecasts = self._forecasts(ask, snapshot, wanted=ask.wanted)
            parts = [
                ForecastsMade(number=ask.number, forecasts=tuple(forecasts[first : first + FORECASTS_MAX]))
                for first in range(0, len(forecasts), FORECASTS_MAX)
            ]
        return [*parts, Finished(number=ask.number, took_s=time.process_time() - began, accuracy=report)]

    def _hypothetical_forecasts(self, ask: ForecastRequest, snapshot: Snapshot) -> Iterator[ShownForecast | None]:
        for session in ask.hypothetical:
            forecasts = self._forecasts(ask, session.joined(snapshot), wanted=(session.row.session_id,))
            yield forecasts[0] if forecasts else None

    def _forecasts(
        self, ask: ForecastRequest, snapshot: Snapshot, *, wanted: Collection[SessionId] | None
    ) -> list[ShownForecast]:
        made = forecast_all(
            snapshot,
            ask.policy,
            self._runs,
            self._arrivals,
            self._scores.corrections,
            now_us=ask.now_us,
            samples=ask.samples,
            wanted=wanted,
            first_rows=ask.first_rows,
        )
        queued_us = {row.session_id: row.queued_us for row in snapshot.queue}
        return [
            self._scores.shown(forecast, waited_us=max(ask.now_us - queued_us[name], 0))
            for name, forecast in made.items()
        ]


def main(descriptor: int) -> None:
    """Serve one server until it closes its end."""
    os.nice(NICE)
    pipe = socket.socket(fileno=descriptor)
    received: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(pipe, received), daemon=True).start()
    forecaster = Forecaster()
    _send(pipe, ProcessReady())
    while True:
        for answer in forecaster.take(read_message(received.get())):
            _send(pipe, answer)


def _receive(pipe: socket.socket, received: "queue.SimpleQueue[bytes]") -> None:
    """Receive frames in a thread; ends the process when the server has gone."""
    stream = pipe.makefile("rb")
    try:
        while head := stream.read(4):
            received.put(stream.read(int.from_bytes(head, "big")))
    finally:
        os._exit(0)


def _send(pipe: socket.socket, message: FromProcess) -> None:
    body = ENCODER.encode(message)
    try:
        pipe.sendall(len(body).to_bytes(4, "big") + body)
    except OSError:
        os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
