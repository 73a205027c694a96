"""Messages between the leading server and its forecast process, as frames on a socket pair that the server makes.

Frames are a length in four bytes (big endian) and a body: a pickle on the way to the process, which reads only what its
own server wrote, and typed JSON on the way back. Snapshots are sent as differences to the one before.
"""

import pickle
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from aliquot.core.foresight.forecast import HypotheticalSession
from aliquot.core.foresight.run_times import EndedRun
from aliquot.core.foresight.scoring import AccuracyReport
from aliquot.core.foresight.shown_forecasts import ForecastRecord, ShownForecast
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, Snapshot
from aliquot_schema.ids import SessionId
from aliquot_schema.intervals import Intervals

ROWS_MAX: Final = 25
"""Rows in one frame. A frame is encoded in one call, which holds the interpreter lock: 15 ms for agents with 6 GPUs."""


class Ended(Struct, frozen=True, kw_only=True):
    """A submitted session has run, or left the queue without a start."""

    session_id: SessionId
    at_us: int
    run: EndedRun | None
    """None = it never started."""
    tasks: Intervals | None = None
    """Of a job array, the tasks that were canceled; those that had started have own ends. None = it is no array."""


Learned = PendingRow | Ended
"""A session as it was submitted, or the end of one."""


def learned_us(learned: Learned) -> int:
    """When it happened."""
    return learned.queued_us if isinstance(learned, PendingRow) else learned.at_us


class LearningBatch(Struct, frozen=True, kw_only=True):
    """Submissions and ends, in the order of their times."""

    learned: tuple[Learned, ...]
    is_history: bool = False
    """Whether they come from the store, in any order; learned at `HistoryRead`."""


class ScoredRecords(Struct, frozen=True, kw_only=True):
    """Records whose outcome, or whose end, has become known."""

    records: tuple[ForecastRecord, ...]
    is_history: bool = False
    """Whether they are learned at `HistoryRead`, with all that is known of them: records from the store, in any order,
    and later versions of these."""


class HistoryRead(Struct, frozen=True, kw_only=True):
    """All history has been sent."""


class Days(Struct, frozen=True, kw_only=True):
    """(day, sessions that started before any forecast) to be added to the counts of days."""

    at_once: tuple[tuple[int, int], ...]


class RowChanges(Struct, frozen=True, kw_only=True):
    """Rows that differ from those of the snapshot before."""

    rows: tuple[tuple[str, Any, Any], ...]
    """(table, key, row), see `_tables`."""


class ForecastRequest(Struct, frozen=True, kw_only=True):
    """Request for forecasts."""

    number: int
    snapshot: Snapshot
    """On the way to the process without its tables, which the process has."""
    gone: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Keys of rows that have left, by table."""
    policy: Policy
    now_us: int
    wanted: tuple[SessionId, ...] | None
    """None = every waiting session."""
    first_rows: int | None
    """Keep only this many waiting sessions; None = all."""
    samples: int
    hypothetical: tuple[HypotheticalSession, ...] = ()
    """Sessions that are not submitted. If there are any, the request is about these, each of them alone."""


ToProcess = LearningBatch | ScoredRecords | HistoryRead | Days | RowChanges | ForecastRequest


def frames_of(message: ToProcess) -> bytes:
    """A message as one frame."""
    body = pickle.dumps(message, protocol=5)
    return len(body).to_bytes(4, "big") + body


def read_message(body: bytes) -> ToProcess:
    """The inverse of `frames_of`, without the length."""
    message: ToProcess = pickle.loads(body)
    return message


Tables = dict[str, Mapping[Any, Any]]


def _tables(snapshot: Snapshot) -> Tables:
    """The large parts of a snapshot, as rows by key. Rows are never changed in place."""
    return {
        "agents": {row.id: row for row in snapshot.agents},
        "queue": {row.session_id: row for row in snapshot.queue},
        "running": {row.session_id: row for row in snapshot.running},
        "used": snapshot.used,
        "holders": snapshot.holders,
    }


def _with_tables(snapshot: Snapshot, tables: Tables) -> Snapshot:
    return replace(
        snapshot,
        agents=tuple(tables["agents"].values()),
        queue=tuple(tables["queue"].values()),
        running=tuple(tables["running"].values()),
        used=dict(tables["used"]),
        holders=dict(tables["holders"]),
    )


_EMPTY: Final[Tables] = {"agents": {}, "queue": {}, "running": {}, "used": {}, "holders": {}}


class SnapshotDifference:
    """Compares snapshots with those sent before, by the identity of their immutable rows."""

    def __init__(self) -> None:
        self._known: dict[str, dict[Any, Any]] = {name: {} for name in _EMPTY}

    def messages(self, ask: ForecastRequest) -> Iterator[ToProcess]:
        """Messages that bring the process to a request's snapshot, the request last."""
        rows, gone = list[tuple[str, Any, Any]](), dict[str, tuple[Any, ...]]()
        for name, table in _tables(ask.snapshot).items():
            changed, gone[name] = _changed(self._known[name], table)
            rows += ((name, key, row) for key, row in changed)
        for first in range(0, len(rows), ROWS_MAX):
            yield RowChanges(rows=tuple(rows[first : first + ROWS_MAX]))
        yield replace(ask, snapshot=_with_tables(ask.snapshot, _EMPTY), gone=gone)


class SnapshotMirror:
    """The other end of `SnapshotDifference`."""

    def __init__(self) -> None:
        self._known: dict[str, dict[Any, Any]] = {name: {} for name in _EMPTY}

    def change(self, changes: RowChanges) -> None:
        """Put the rows in place."""
        for name, key, row in changes.rows:
            self._known[name][key] = row

    def snapshot(self, ask: ForecastRequest) -> Snapshot:
        """The snapshot that a request is about."""
        for name, keys in ask.gone.items():
            for key in keys:
                del self._known[name][key]
        return _with_tables(ask.snapshot, dict(self._known))


def _changed(known: dict[Any, Any], present: Mapping[Any, Any]) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
    """New and changed rows, and the keys of those that are gone; `known` is brought up to date."""
    gone = tuple(key for key in known if key not in present)
    for key in gone:
        del known[key]
    changed = [(key, row) for key, row in present.items() if known.get(key) is not row]
    known.update(changed)
    return changed, gone


class ProcessReady(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """The process has started."""


class ForecastsMade(msgspec.Struct, frozen=True, kw_only=True, tag="made"):
    """Some of the forecasts asked for."""

    number: int
    forecasts: tuple[ShownForecast, ...]


class HypotheticalForecastsMade(msgspec.Struct, frozen=True, kw_only=True, tag="hypothetical"):
    """Forecasts of sessions that are not submitted, in the order asked; None = too many sessions are ahead."""

    number: int
    forecasts: tuple[ShownForecast | None, ...]


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished"):
    """A request is answered, with the accuracy so far."""

    number: int
    took_s: float
    accuracy: AccuracyReport


FromProcess = ProcessReady | ForecastsMade | HypotheticalForecastsMade | Finished
ENCODER: Final = msgspec.json.Encoder()
DECODER: Final[msgspec.json.Decoder[FromProcess]] = msgspec.json.Decoder(FromProcess)
