"""Messages between the leading server and its forecast process, as frames on a socket pair that the server makes.

Frames are a length in four bytes (big endian) and a body: a pickle on the way to the process, which reads only what its
own server wrote, and typed JSON on the way back. Snapshots are sent as differences to the one before.
"""

import pickle
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.foresight.forecast import Supposed
from aliquot.core.foresight.run_times import EndedRun
from aliquot.core.foresight.scoring import AccuracyReport
from aliquot.core.foresight.told import ForecastRecord, Told
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow, PendingRow, RunningRow, Snapshot
from aliquot_schema.ids import AgentId, SessionId

ROWS_MAX: Final = 500
"""Rows in one frame, so that neither side is busy with one for long."""


class Ended(Struct, frozen=True, kw_only=True):
    """A submitted session has run, or left the queue without a start."""

    session_id: SessionId
    at_us: int
    run: EndedRun | None
    """None = it never started."""


Learned = PendingRow | Ended
"""A session as it was submitted, or the end of one."""


def learned_us(learned: Learned) -> int:
    """When it happened."""
    return learned.queued_us if isinstance(learned, PendingRow) else learned.at_us


class Lesson(Struct, frozen=True, kw_only=True):
    """Submissions and ends, in the order of their times."""

    learned: tuple[Learned, ...]
    is_history: bool = False
    """Whether they come from the store, in any order; learned at `HistoryRead`."""


class ScoredRecords(Struct, frozen=True, kw_only=True):
    """Records whose outcome, or whose end, has become known."""

    records: tuple[ForecastRecord, ...]
    is_history: bool = False
    """Whether they come from the store, in any order; learned at `HistoryRead`."""


class HistoryRead(Struct, frozen=True, kw_only=True):
    """All history has been sent."""


class Days(Struct, frozen=True, kw_only=True):
    """(day, sessions that started before any forecast) to be added to the counts of days."""

    at_once: tuple[tuple[int, int], ...]


class RowChanges(Struct, frozen=True, kw_only=True):
    """Rows that differ from those of the snapshot before."""

    agents: tuple[AgentRow, ...] = ()
    queue: tuple[PendingRow, ...] = ()
    running: tuple[RunningRow, ...] = ()


class Ask(Struct, frozen=True, kw_only=True):
    """Request for forecasts."""

    number: int
    snapshot: Snapshot
    """On the way to the process without rows, which it has."""
    agents_gone: tuple[AgentId, ...] = ()
    queue_gone: tuple[SessionId, ...] = ()
    running_gone: tuple[SessionId, ...] = ()
    policy: Policy
    now_us: int
    wanted: tuple[SessionId, ...] | None
    """None = every waiting session."""
    first_rows: int | None
    """Keep only this many waiting sessions; None = all."""
    samples: int
    supposed: tuple[Supposed, ...] = ()
    """Sessions that are not submitted. If there are any, the request is about these, each of them alone."""


ToProcess = Lesson | ScoredRecords | HistoryRead | Days | RowChanges | Ask


def frames_of(message: ToProcess) -> bytes:
    """A message as one frame."""
    body = pickle.dumps(message, protocol=5)
    return len(body).to_bytes(4, "big") + body


def read_message(body: bytes) -> ToProcess:
    """The inverse of `frames_of`, without the length."""
    message: ToProcess = pickle.loads(body)
    return message


class SnapshotDifference:
    """Compares snapshots with those sent before, by the identity of their immutable rows."""

    def __init__(self) -> None:
        self._agents: dict[AgentId, AgentRow] = {}
        self._queue: dict[SessionId, PendingRow] = {}
        self._running: dict[SessionId, RunningRow] = {}

    def messages(self, ask: Ask) -> Iterator[ToProcess]:
        """Messages that bring the process to a request's snapshot, the request last."""
        snapshot = ask.snapshot
        agents, agents_gone = _changed(self._agents, {row.id: row for row in snapshot.agents})
        queue, queue_gone = _changed(self._queue, {row.session_id: row for row in snapshot.queue})
        running, running_gone = _changed(self._running, {row.session_id: row for row in snapshot.running})
        for first in range(0, max(len(agents), len(queue), len(running)), ROWS_MAX):
            part = slice(first, first + ROWS_MAX)
            yield RowChanges(agents=tuple(agents[part]), queue=tuple(queue[part]), running=tuple(running[part]))
        yield replace(
            ask,
            snapshot=replace(snapshot, agents=(), queue=(), running=()),
            agents_gone=agents_gone,
            queue_gone=queue_gone,
            running_gone=running_gone,
        )


class SnapshotMirror:
    """The other end of `SnapshotDifference`."""

    def __init__(self) -> None:
        self._agents: dict[AgentId, AgentRow] = {}
        self._queue: dict[SessionId, PendingRow] = {}
        self._running: dict[SessionId, RunningRow] = {}

    def change(self, rows: RowChanges) -> None:
        """Put the rows in place."""
        self._agents.update((row.id, row) for row in rows.agents)
        self._queue.update((row.session_id, row) for row in rows.queue)
        self._running.update((row.session_id, row) for row in rows.running)

    def snapshot(self, ask: Ask) -> Snapshot:
        """The snapshot that a request is about."""
        for agent_id in ask.agents_gone:
            del self._agents[agent_id]
        for session_id in ask.queue_gone:
            del self._queue[session_id]
        for session_id in ask.running_gone:
            del self._running[session_id]
        return replace(
            ask.snapshot,
            agents=tuple(self._agents.values()),
            queue=tuple(self._queue.values()),
            running=tuple(self._running.values()),
        )


def _changed(known: dict[Any, Any], present: Mapping[Any, Any]) -> tuple[list[Any], tuple[Any, ...]]:
    """New and changed rows, and the keys of those that are gone; `known` is brought up to date."""
    gone = tuple(key for key in known if key not in present)
    for key in gone:
        del known[key]
    changed = [row for key, row in present.items() if known.get(key) is not row]
    known.update(present)
    return changed, gone


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """The process has started."""


class Made(msgspec.Struct, frozen=True, kw_only=True, tag="made"):
    """Some of the forecasts asked for."""

    number: int
    told: tuple[Told, ...]


class SupposedMade(msgspec.Struct, frozen=True, kw_only=True, tag="supposed"):
    """Forecasts of sessions that are not submitted, in the order asked; None = too many sessions are ahead."""

    number: int
    told: tuple[Told | None, ...]


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished"):
    """A request is answered, with the accuracy so far."""

    number: int
    took_s: float
    accuracy: AccuracyReport


FromProcess = Ready | Made | SupposedMade | Finished
ENCODER: Final = msgspec.json.Encoder()
DECODER: Final[msgspec.json.Decoder[FromProcess]] = msgspec.json.Decoder(FromProcess)
