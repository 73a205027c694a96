"""Clock keeper: the leader's loop that follows a wall clock that was set, by an event in the log.

Times go on as before until the wall clock has stayed where it was set to for `PATIENCE_S`; a clock that was wrong for a
moment leaves no trace. Then one transaction corrects the clock and moves the times of open records.
"""

import logging
from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from aliquot.core.clock_correction import ClockCorrection, corrected, moment_text, offset_text
from aliquot.service.ports import Clock, StoreUnavailable
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.alerts import Alert, Delivery
from aliquot_schema.identity.accounts import ApiKey
from aliquot_schema.resources.leases import Kernel, Lease
from aliquot_schema.sessions import Session

log: Final = logging.getLogger("aliquot.clock")

ACTOR: Final = "system:clock"
LOOK_S: Final = 1.0
PATIENCE_S: Final = 5.0
DAY_US: Final = 86_400_000_000
AHEAD_US_MAX: Final = 60_000_000
"""The newest event may be this far ahead: the clocks of several servers differ a little."""


def check_clock(newest_us: int, *, wall_us: int) -> None:
    """Refuse to start with a clock that the newest event is more than a day ahead of.

    Args:
        newest_us: time of the newest event, microseconds UTC, as `wall_us`.
    Raises:
        StoreUnavailable: it is.
    """
    if newest_us - wall_us > DAY_US:
        ahead = offset_text(newest_us - wall_us).removesuffix(" ahead")
        raise StoreUnavailable(
            f"the newest event in the database is from {moment_text(newest_us)}, and this machine's clock says "
            f"{moment_text(wall_us)}, {ahead} earlier. If the clock is wrong, set it and start again. If it is right, "
            "and was wrong when the event was written, start once with `aliquot serve --accept-clock`: times follow "
            "the clock from then on"
        )


class ClockKeeper:
    """Compares the clocks once a second, and commits a correction when one is due."""

    def __init__(self, *, state: State, journal: Journal, clock: Clock) -> None:
        self._state = state
        self._journal = journal
        self._clock = clock
        self._since_s: float | None = None
        """When the wall clock was first seen to differ, monotonic seconds."""

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await self.run_once()
            await self._clock.sleep(LOOK_S)

    async def run_once(self) -> None:
        """Correct the clock if it is due.

        Raises:
            NotLeader: another server leads.
        """
        leap_us, at_s = self._clock.leap_us(), self._clock.monotonic()
        if not leap_us:
            self._since_s = None
        elif self._since_s is None:
            self._since_s = at_s
            log.error(
                "the clock of this machine was set %s; times follow it if it stays so for %d s",
                offset_text(leap_us),
                PATIENCE_S,
            )
        elif at_s - self._since_s >= PATIENCE_S:
            await self._correct(is_measured=True)
        if self._state.newest_us - self._clock.now_us() > AHEAD_US_MAX:
            await self._correct(is_measured=False)

    async def _correct(self, *, is_measured: bool) -> None:
        def change(draft: UnitOfWork) -> ClockCorrection | None:
            # Measured: from the time that continued by CLOCK_BOOTTIME to the wall clock. Otherwise the newest event is
            # ahead of the clock, and how far the clock was off is known from it alone.
            now_us, leap_us, newest_us = self._clock.now_us(), self._clock.leap_us(), self._state.newest_us
            if not (leap_us if is_measured else newest_us - now_us > AHEAD_US_MAX):
                return None
            correction = ClockCorrection(
                from_us=now_us if is_measured else newest_us,
                to_us=now_us + leap_us if is_measured else now_us,
                is_measured=is_measured,
            )
            write_correction(draft, correction, state=self._state)
            return correction

        await self._journal.settle()
        correction = await self._journal.persist(change, actor=ACTOR)
        self._since_s = None
        if correction is not None:
            log.error("%s", correction.words())


def write_correction(draft: UnitOfWork, correction: ClockCorrection, *, state: State) -> None:
    """Record a correction, the balances by the corrected clock, and the moved times of records."""
    draft.put(correction.action(), "clock_corrected")
    usage = state.usage.corrected(correction)
    for project, user in usage.balances:
        if usage.balances[project, user] != state.usage.balances[project, user]:
            draft.merge(usage.record(project, user), "clock_corrected")
    for record, by in (*((record, correction) for record in _open_records(state)), *_closed_records(state, correction)):
        moved: Any = corrected(record, by)
        if moved is not record:
            draft.merge(moved, "clock_corrected")


def _open_records(state: State) -> Iterator[Session | Kernel | Lease | Alert | Delivery]:
    yield from (session for session in state.sessions.values() if not session.is_ended)
    yield from state.live_kernels.by_id.values()
    for leases in state.open_leases.values():
        yield from leases.values()
    yield from state.alert_index.alerts.values()
    yield from state.alert_index.deliveries.values()


def _closed_records(state: State, correction: ClockCorrection) -> Iterator[tuple[Session | ApiKey, ClockCorrection]]:
    """Records whose times change only if they are ahead of the corrected clock; and sessions that ended on the last day
    since the correction before, by the clock that is corrected now."""
    ahead, before = replace(correction, is_measured=False), state.clock_correction
    first_us = correction.from_us
    if before is not None:
        first_us = max(before.to_us, first_us - DAY_US)
    for session in state.sessions.values():
        if session.ended_us is not None:
            is_recent = first_us <= session.ended_us <= correction.from_us
            yield session, correction if is_recent else ahead
    for key in state.people.keys.values():
        yield key, ahead
