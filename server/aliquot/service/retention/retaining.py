"""Retaining: the leader's loop that archives what is old, and then removes it, a little at a time."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from aliquot.service.ports import Clock, NotLeader, StoreUnavailable
from aliquot.service.retention.periods import Periods, before
from aliquot.service.retention.ports import History, HistoryDamaged, Kind, Memory, Sealed

log: Final = logging.getLogger("aliquot.retention")

FIRST_S: Final = 60.0
"""After the start of a term, when there is more to do than this."""
EVERY_S: Final = 3600.0
PAUSE_S: Final = 0.05
"""Between two removals, so that commits wait for one at most."""
AT_ONCE: Final = 200
"""Sessions removed in one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """Rows that went, by kind; kernels, leases and holdings go uncounted with their sessions."""

    passes: int
    events: int
    sessions: int


class Retaining:
    """`run` returns only by cancellation, or when another server leads."""

    def __init__(self, history: History, *, memory: Memory, clock: Clock, periods: Periods) -> None:
        self._history = history
        self._memory = memory
        self._clock = clock
        self._periods = periods

    async def run(self) -> None:
        """Look again and again. What fails is told, and tried again the next time."""
        wait_s = FIRST_S
        while True:
            await self._clock.sleep(wait_s)
            wait_s = EVERY_S
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
        now_us, history, periods = self._clock.now_us(), self._history, self._periods
        passes = await self._in_turn(Kind.LEDGER, periods.ledger_us, history.seal_ledger, history.remove_passes, now_us)
        events = await self._in_turn(Kind.EVENTS, periods.events_us, history.seal_events, history.remove_events, now_us)
        sessions = 0
        if periods.sessions_us is not None:
            while (sealed := await history.seal_sessions(before(now_us, periods.sessions_us))) is not None:
                _tell(Kind.SESSIONS, sealed)
                gone = await self._remove_sessions(sealed)
                sessions += gone
                if not gone:
                    break
        if passes or events or sessions:
            log.warning("removed as too old: %d passes, %d events, %d sessions", passes, events, sessions)
        return Removed(passes=passes, events=events, sessions=sessions)

    async def _in_turn(
        self,
        kind: Kind,
        kept_us: int | None,
        seal: Callable[[int], Awaitable[Sealed | None]],
        remove: Callable[[], Awaitable[int]],
        now_us: int,
    ) -> int:
        """Seal one file after the other, and remove what it holds."""
        removed = await self._removed(remove)
        if kept_us is None:
            return removed
        while (sealed := await seal(before(now_us, kept_us))) is not None:
            _tell(kind, sealed)
            removed += await self._removed(remove)
        return removed

    async def _removed(self, remove: Callable[[], Awaitable[int]]) -> int:
        count = 0
        while gone := await remove():
            count += gone
            await self._clock.sleep(PAUSE_S)
        return count

    async def _remove_sessions(self, sealed: Sealed) -> int:
        names = [name for name in sealed.sessions if name not in self._memory.kept]
        count = 0
        for first in range(0, len(names), AT_ONCE):
            mine = names[first : first + AT_ONCE]
            self._memory.forget(mine)
            count += await self._history.remove_sessions({name: sealed.sessions[name] for name in mine})
            await self._clock.sleep(PAUSE_S)
        return count


def _tell(kind: Kind, sealed: Sealed) -> None:
    where = "without an archive" if sealed.file is None else f"archived in {sealed.file}"
    log.warning("%s: %d rows, %d to %d, %s", kind.value, sealed.rows, sealed.first, sealed.last, where)
