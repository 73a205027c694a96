"""Retention: the leader's loop that archives old history and then deletes it in small transactions.

Ages are measured by the raw wall clock. After the clock jumps ahead by 7 days or more, nothing is deleted for 24 hours,
so that a wrong clock can be corrected without losing history. The event log holds the correction that followed, so a
server that starts, or takes over, within these hours waits too. A server that was off or suspended for a week also
waits; a jump while no server ran is noticed only if no event was written since.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from enum import StrEnum
from functools import partial
from typing import Final, Protocol

from msgspec import Struct, field

from aliquot.core.clock_correction import ClockCorrection
from aliquot.service.ports import Clock, NotLeader, StoreUnavailable
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import SessionId
from aliquot_schema.resources.units import parse_duration

DAY_US: Final = 86_400 * 1_000_000
FOREVER: Final = "forever"
HOUR_US: Final = DAY_US // 24


class Periods(Struct, frozen=True, kw_only=True):
    """How long history is kept, in microseconds; None = forever."""

    sessions_us: int | None = 365 * DAY_US
    """From the end of a session; for leases without a session, from their release."""
    events_us: int | None = 90 * DAY_US
    ledger_us: int | None = 30 * DAY_US
    findings_us: int | None = 90 * DAY_US
    """From the end of reaper findings, alerts and notifications."""


def before(now_us: int, kept_us: int) -> int:
    """History before this time is too old. Rounded down to whole UTC days, which gives about one archive per day."""
    return (now_us - kept_us) // DAY_US * DAY_US


def parse_period(text: str) -> int | None:
    """Microseconds of a duration such as `36h`, `90d` or `12w`; None for `forever`.

    Raises:
        ValueError: not a duration, less than an hour, or without a unit: reading 90 as 90 s would delete history if
            90 days were meant.
    """
    if text == FOREVER:
        return None
    try:
        period_us = round(parse_duration(text) * 1_000_000)
    except InvalidRequest:
        period_us = None
    if period_us is None or not set(text.lower()) & set("ywdhms"):
        raise ValueError("give a duration with its unit, such as 36h, 90d or 1y, or forever")
    if period_us < HOUR_US:
        raise ValueError("give at least 1h; m means minutes, a month is 30d")
    return period_us


class RetainedKind(StrEnum):
    """Kinds of history with separate archives."""

    LEDGER = "ledger"
    EVENTS = "events"
    SESSIONS = "sessions"
    FINDINGS = "findings"
    ALERTS = "alerts"
    DELIVERIES = "deliveries"
    LEASES = "leases"


AT_ONCE: Final = 200
"""Rows deleted in one transaction."""
CLOSED: Final = (RetainedKind.FINDINGS, RetainedKind.ALERTS, RetainedKind.DELIVERIES, RetainedKind.LEASES)
"""Kinds of records that end by themselves. Leases: those without kernels; others are deleted with their sessions."""


class SealedArchive(Struct, frozen=True, kw_only=True):
    """A sealed archive, whose rows may be deleted."""

    id: str
    """`<kind>-<number>`."""
    first: int
    """First event or pass number; for other kinds the earliest end time, microseconds UTC. `last` likewise."""
    last: int
    rows: int
    file: str | None
    """Path of the archive; None = archiving is off."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """For kinds deleted by id: the ids with the versions that were archived."""


class HistoryDamaged(Exception):
    """The hash chain of the history is broken; nothing was archived, and nothing is deleted."""


class Memory(Protocol):
    """The in-memory state, from which deleted sessions must be evicted."""

    def forget(self, names: Iterable[SessionId]) -> Collection[SessionId]:
        """Evict these, except those that are needed or being changed; returns the others."""


class ArchivedHistory(Protocol):
    """Port of the durable history, for one epoch. Every method may raise `StoreUnavailable`; after a later epoch has
    begun, writing methods raise `NotLeader`. Each remove call deletes a few rows in its own transaction."""

    async def seal_ledger(self, before_us: int) -> SealedArchive | None:
        """Archive older passes, in whole segments from checkpoint to checkpoint; None when there are none."""

    async def seal_events(self, before_us: int) -> SealedArchive | None:
        """Archive older events that no replayable pass needs.

        Raises:
            HistoryDamaged: the hash chain is broken.
        """

    async def seal_sessions(self, before_us: int) -> SealedArchive | None:
        """Archive sessions that ended before, with kernels, leases and holdings, once their events are deleted.

        Dependencies of waiting sessions are kept. An array is archived with all its tasks or not at all.
        """

    async def seal_closed(self, kind: RetainedKind, before_us: int) -> SealedArchive | None:
        """Archive records of a kind in `CLOSED` that ended before, once their events are deleted; leases too."""

    async def remove_passes(self) -> int:
        """Delete the next few sealed passes; returns their number, 0 at the end."""

    async def remove_events(self) -> int:
        """Delete the next few sealed events; returns their number, 0 at the end."""

    async def remove_closed(self, kind: RetainedKind, versions: Mapping[str, int]) -> int:
        """Delete records of a kind in `CLOSED`, unless their version changed; returns their number."""

    async def remove_sessions(self, versions: Mapping[SessionId, int]) -> int:
        """Delete sessions with all that belongs to them, unless their version changed; returns their number."""


clock_log: Final = logging.getLogger("aliquot.clock")

LEAP_S: Final = 7 * 86_400.0
PATIENCE_S: Final = 86_400.0


SERVER_JUMPED: Final = (
    "the clock jumped ahead by %d days, so no history is deleted for 24 hours; if the clock is wrong, correct it"
)


class TwoClocks(Protocol):
    """The wall clock and the monotonic clock."""

    def wall_us(self) -> int:
        """Time of the machine, microseconds UTC. It jumps when the clock is set."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start."""


class ClockJumps:
    """Detects jumps of the wall clock by comparing it with the monotonic clock at every call."""

    def __init__(
        self,
        clock: TwoClocks,
        *,
        known_us: int = 0,
        correction: ClockCorrection | None = None,
        message: str = SERVER_JUMPED,
    ) -> None:
        """
        Args:
            known_us: a wall time known from before the start; 0 = none.
            correction: the last one in the event log, whose jump may be less than `PATIENCE_S` ago.
            message: logged after a jump, with its days as `%d`.
        """
        self._clock = clock
        self._message = message
        wall_us, at_s = clock.wall_us(), clock.monotonic()
        self._offset_s = (known_us or wall_us) / 1e6 - at_s
        self._since_s: float | None = None
        if correction is not None and correction.is_measured:
            passed_s, ahead_us = (wall_us - correction.to_us) / 1e6, correction.to_us - correction.from_us
            if ahead_us / 1e6 >= LEAP_S and 0 <= passed_s < PATIENCE_S:
                self._offset_s = (wall_us - ahead_us) / 1e6 - at_s
                self._since_s = at_s - passed_s

    def is_steady(self) -> bool:
        """Whether the wall clock can be trusted. A jump is logged once."""
        at_s = self._clock.monotonic()
        offset_s = self._clock.wall_us() / 1e6 - at_s
        ahead_s = offset_s - self._offset_s
        if ahead_s >= LEAP_S:
            if self._since_s is None:
                self._since_s = at_s
                clock_log.error(self._message, ahead_s // 86_400)
            if at_s - self._since_s < PATIENCE_S:
                return False
        self._offset_s, self._since_s = offset_s, None
        return True


log: Final = logging.getLogger("aliquot.retention")

FIRST_S: Final = 60.0
"""Delay after the start of a term, which has more urgent work."""
EVERY_S: Final = 3600.0
PAUSE_S: Final = 0.05
"""Pause between two deletions, so that commits wait for one at most."""


class RemovedRows(Struct, frozen=True, kw_only=True):
    """Deleted rows by kind; kernels, leases and holdings of sessions are not counted."""

    passes: int
    events: int
    sessions: int
    closed: int = 0
    """Findings, alerts, notifications, and leases without kernels."""


NOTHING: Final = RemovedRows(passes=0, events=0, sessions=0)


class RetentionLoop:
    """The retention loop. `run` ends by cancellation, or when another server leads."""

    def __init__(
        self,
        history: ArchivedHistory,
        *,
        memory: Memory,
        clock: Clock,
        periods: Periods,
        jumps: ClockJumps | None = None,
    ) -> None:
        self._history = history
        self._memory = memory
        self._clock = clock
        self._periods = periods
        self._jumps = jumps or ClockJumps(clock)

    async def run(self) -> None:
        """Run every `EVERY_S`, except after a clock jump. Errors are logged, and retried the next time."""
        wait_s = FIRST_S
        while True:
            await self._clock.sleep(wait_s)
            wait_s = EVERY_S
            if not self._jumps.is_steady():
                continue
            try:
                await self.run_once()
            except NotLeader as error:
                log.warning("another server leads and runs retention now: %s", error)
                return
            except (StoreUnavailable, OSError) as error:
                log.error("old history cannot be archived and is kept, retrying: %s", error)
            except HistoryDamaged as error:
                log.error("old history is damaged and is kept: %s; run `aliquot audit verify`", error)
            except Exception:
                log.exception("old history cannot be archived and is kept, retrying")

    async def run_once(self) -> RemovedRows:
        """Archive and delete old history; continues deletions that an earlier run did not finish.

        Raises:
            NotLeader, StoreUnavailable, HistoryDamaged, OSError: not finished; nothing is lost.
        """
        wall_us, history, periods = self._clock.wall_us(), self._history, self._periods
        passes = await self._delete_in_order(
            RetainedKind.LEDGER, periods.ledger_us, history.seal_ledger, history.remove_passes, wall_us
        )
        events = await self._delete_in_order(
            RetainedKind.EVENTS, periods.events_us, history.seal_events, history.remove_events, wall_us
        )
        sessions = closed = 0
        if periods.sessions_us is not None:
            until_us = before(wall_us, periods.sessions_us)
            sessions = await self._delete_by_id(
                RetainedKind.SESSIONS, partial(history.seal_sessions, until_us), self._remove_sessions
            )
        for kind in CLOSED:
            kept_us = periods.sessions_us if kind is RetainedKind.LEASES else periods.findings_us
            if kept_us is not None:
                seal = partial(history.seal_closed, kind, before(wall_us, kept_us))
                closed += await self._delete_by_id(kind, seal, partial(history.remove_closed, kind))
        found = RemovedRows(passes=passes, events=events, sessions=sessions, closed=closed)
        if found != NOTHING:
            text = (
                "deleted by retention: %d passes, %d events, %d sessions, %d findings, alerts, notifications and leases"
            )
            log.warning(text, passes, events, sessions, closed)
        return found

    async def _delete_in_order(
        self,
        kind: RetainedKind,
        kept_us: int | None,
        seal: Callable[[int], Awaitable[SealedArchive | None]],
        remove: Callable[[], Awaitable[int]],
        wall_us: int,
    ) -> int:
        """Seal archives one by one, and delete their rows in order."""
        removed = await self._delete_all(remove)
        if kept_us is None:
            return removed
        while (sealed := await seal(before(wall_us, kept_us))) is not None:
            _log_sealed(kind, sealed)
            removed += await self._delete_all(remove)
        return removed

    async def _delete_all(self, remove: Callable[[], Awaitable[int]]) -> int:
        count = 0
        while deleted := await remove():
            count += deleted
            await self._clock.sleep(PAUSE_S)
        return count

    async def _delete_by_id(
        self,
        kind: RetainedKind,
        seal: Callable[[], Awaitable[SealedArchive | None]],
        remove: Callable[[Mapping[str, int]], Awaitable[int]],
    ) -> int:
        """Seal archives one by one, and delete their rows by id."""
        count = 0
        while (sealed := await seal()) is not None:
            _log_sealed(kind, sealed)
            deleted = 0
            names = list(sealed.versions)
            for first in range(0, len(names), AT_ONCE):
                deleted += await remove({name: sealed.versions[name] for name in names[first : first + AT_ONCE]})
                await self._clock.sleep(PAUSE_S)
            count += deleted
            if not deleted:
                break
        return count

    async def _remove_sessions(self, versions: Mapping[str, int]) -> int:
        unneeded = self._memory.forget(map(SessionId, versions))
        return await self._history.remove_sessions({name: versions[name] for name in unneeded})


def _log_sealed(kind: RetainedKind, sealed: SealedArchive) -> None:
    where = "without an archive" if sealed.file is None else f"archived in {sealed.file}"
    log.warning("%s: %d rows, %d to %d, %s", kind.value, sealed.rows, sealed.first, sealed.last, where)


class RetentionPlan(Struct, frozen=True, kw_only=True):
    """Retention of one server: periods, and how to open the history."""

    periods: Periods
    open_history: Callable[[int], ArchivedHistory]
    """Opens the history for a leader's epoch."""

    def begin(self, epoch: int, *, memory: Memory, clock: Clock, jumps: ClockJumps) -> RetentionLoop:
        """The retention loop of one term as leader."""
        return RetentionLoop(self.open_history(epoch), memory=memory, clock=clock, periods=self.periods, jumps=jumps)
