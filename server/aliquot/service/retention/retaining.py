"""Retaining: the leader's loop that archives what is old, and then removes it, a little at a time."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from aliquot.service.leaps import Leaps
from aliquot.service.ports import Clock, NotLeader, StoreUnavailable
from aliquot.service.retention.periods import Periods, before
from aliquot.service.retention.ports import AT_ONCE, CLOSED, History, HistoryDamaged, Kind, Memory, Sealed
from aliquot_schema.ids import SessionId

log: Final = logging.getLogger("aliquot.retention")

FIRST_S: Final = 60.0
"""After the start of a term, when there is more to do than this."""
EVERY_S: Final = 3600.0
PAUSE_S: Final = 0.05
"""Between two removals, so that commits wait for one at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """Rows that went, by kind; kernels, leases and holdings go uncounted with their sessions."""

    passes: int
    events: int
    sessions: int
    closed: int = 0
    """Findings, alerts, notices, and leases without kernels."""


NOTHING: Final = Removed(passes=0, events=0, sessions=0)


class Retaining:
    """`run` returns only by cancellation, or when another server leads."""

    def __init__(
        self, history: History, *, memory: Memory, clock: Clock, periods: Periods, leaps: Leaps | None = None
    ) -> None:
        self._history = history
        self._memory = memory
        self._clock = clock
        self._periods = periods
        self._leaps = leaps or Leaps(clock)

    async def run(self) -> None:
        """Look again and again. What fails is told, and tried again the next time."""
        wait_s = FIRST_S
        while True:
            await self._clock.sleep(wait_s)
            wait_s = EVERY_S
            if not self._leaps.is_steady():
                continue
            try:
                await self.run_once()
            except NotLeader as error:
                log.warning("another server removes what is old: %s", error)
                return
            except (StoreUnavailable, OSError) as error:
                log.error("what is old cannot be archived now, and stays: %s", error)
            except HistoryDamaged as error:
                log.error("what is old stays, for it is not what was written: %s; see `aliquot audit verify`", error)
            except Exception:
                log.exception("what is old cannot be archived now, and stays")

    async def run_once(self) -> Removed:
        """Archive and remove what is old, also what an earlier time left half removed.

        Raises:
            NotLeader, StoreUnavailable, HistoryDamaged, OSError: it is not done; nothing is lost.
        """
        wall_us, history, periods = self._clock.wall_us(), self._history, self._periods
        passes = await self._in_turn(
            Kind.LEDGER, periods.ledger_us, history.seal_ledger, history.remove_passes, wall_us
        )
        events = await self._in_turn(
            Kind.EVENTS, periods.events_us, history.seal_events, history.remove_events, wall_us
        )
        sessions = closed = 0
        if periods.sessions_us is not None:
            until_us = before(wall_us, periods.sessions_us)
            sessions = await self._each(Kind.SESSIONS, partial(history.seal_sessions, until_us), self._remove_sessions)
        for kind in CLOSED:
            kept_us = periods.sessions_us if kind is Kind.LEASES else periods.findings_us
            if kept_us is not None:
                seal = partial(history.seal_closed, kind, before(wall_us, kept_us))
                closed += await self._each(kind, seal, partial(history.remove_closed, kind))
        found = Removed(passes=passes, events=events, sessions=sessions, closed=closed)
        if found != NOTHING:
            words = "removed as too old: %d passes, %d events, %d sessions, %d findings, alerts, notices and leases"
            log.warning(words, passes, events, sessions, closed)
        return found

    async def _in_turn(
        self,
        kind: Kind,
        kept_us: int | None,
        seal: Callable[[int], Awaitable[Sealed | None]],
        remove: Callable[[], Awaitable[int]],
        wall_us: int,
    ) -> int:
        """Seal one file after the other, and remove what it holds."""
        removed = await self._removed(remove)
        if kept_us is None:
            return removed
        while (sealed := await seal(before(wall_us, kept_us))) is not None:
            _tell(kind, sealed)
            removed += await self._removed(remove)
        return removed

    async def _removed(self, remove: Callable[[], Awaitable[int]]) -> int:
        count = 0
        while gone := await remove():
            count += gone
            await self._clock.sleep(PAUSE_S)
        return count

    async def _each(
        self,
        kind: Kind,
        seal: Callable[[], Awaitable[Sealed | None]],
        remove: Callable[[Mapping[str, int]], Awaitable[int]],
    ) -> int:
        """Seal one file after the other, and remove by name what it holds."""
        count = 0
        while (sealed := await seal()) is not None:
            _tell(kind, sealed)
            gone = 0
            names = list(sealed.versions)
            for first in range(0, len(names), AT_ONCE):
                gone += await remove({name: sealed.versions[name] for name in names[first : first + AT_ONCE]})
                await self._clock.sleep(PAUSE_S)
            count += gone
            if not gone:
                break
        return count

    async def _remove_sessions(self, versions: Mapping[str, int]) -> int:
        unneeded = self._memory.forget(map(SessionId, versions))
        return await self._history.remove_sessions({name: versions[name] for name in unneeded})


def _tell(kind: Kind, sealed: Sealed) -> None:
    where = "without an archive" if sealed.file is None else f"archived in {sealed.file}"
    log.warning("%s: %d rows, %d to %d, %s", kind.value, sealed.rows, sealed.first, sealed.last, where)
