"""Clock keeper: the leader's loop that follows a wall clock that was set, by an event in the log.

Times go on as before until the wall clock has stayed where it was set to for `PATIENCE_S`; a clock that was wrong for a
moment leaves no trace. Then one transaction corrects the clock and moves the times of open records.
"""

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from aliquot.core.clock_correction import ClockCorrection, corrected, offset_text
from aliquot.service.ports import Clock
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.alerts import Alert, Delivery
from aliquot_schema.identity.accounts import ApiKey
from aliquot_schema.resources.leases import Kernel, Lease
from aliquot_schema.sessions import Session
from aliquot_schema.states import KernelState

log: Final = logging.getLogger("aliquot.clock")

ACTOR: Final = "system:clock"
LOOK_S: Final = 1.0
PATIENCE_S: Final = 5.0
AHEAD_US_MAX: Final = 60_000_000
"""The newest event may be this far ahead: the clocks of several servers differ a little."""


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
        def change(draft: UnitOfWork) -> ClockCorrection:
            # Measured: from the time that continued by CLOCK_BOOTTIME to the wall clock. Otherwise the newest event is
            # ahead of the clock, and how far the clock was off is known from it alone.
            now_us = self._clock.now_us()
            correction = ClockCorrection(
                from_us=now_us if is_measured else self._state.newest_us,
                to_us=now_us + self._clock.leap_us() if is_measured else now_us,
                is_measured=is_measured,
            )
            write_correction(draft, correction, state=self._state)
            return correction

        await self._journal.settle()
        correction = await self._journal.persist(change, actor=ACTOR)
        self._since_s = None
        log.error("%s", correction.words())


def write_correction(draft: UnitOfWork, correction: ClockCorrection, *, state: State) -> None:
    """Record a correction, the balances by the corrected clock, and the moved times of records."""
    draft.put(correction.action(), "clock_corrected")
    usage = state.usage.corrected(correction)
    for project, user in usage.balances:
        if usage.balances[project, user] != state.usage.balances[project, user]:
            draft.merge(usage.record(project, user), "clock_corrected")
    for record in _open_records(state):
        moved = corrected(record, correction)
        if moved is not record:
            draft.merge(moved, "clock_corrected")
    closed = replace(correction, is_measured=False)
    for record in _closed_records(state):
        moved = corrected(record, closed)
        if moved is not record:
            draft.merge(moved, "clock_corrected")


def _open_records(state: State) -> Iterator[Session | Kernel | Lease | Alert | Delivery]:
    yield from (session for session in state.sessions.values() if not session.is_ended)
    yield from (kernel for kernel in state.kernels.values() if kernel.state is not KernelState.EXITED)
    for leases in state.open_leases.values():
        yield from leases.values()
    yield from state.noticed.alerts.values()
    yield from state.noticed.deliveries.values()


def _closed_records(state: State) -> Iterator[Session | ApiKey]:
    """Records whose times change only if they are ahead of the corrected clock."""
    yield from (session for session in state.sessions.values() if session.is_ended)
    yield from state.people.keys.values()
