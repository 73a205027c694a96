"""Relaying: one loop, which tells while its server leads, and hears while another one does."""

import logging
from typing import Final

from aliquot.service.leadership.canceling import raise_if_canceled
from aliquot.service.leadership.relaying.hearing import Hearing
from aliquot.service.leadership.relaying.ports import ReadingsRelay
from aliquot.service.leadership.relaying.telling import Telling
from aliquot.service.ports import StoreUnavailable
from aliquot.service.use_cases import UseCases

TELL_S: Final = 2.0
"""Between two sheets at least: agents do not measure more often."""
HEAR_S: Final = 1.0
DEVICES_PER_S: Final = 2000
"""A large cluster is told of less often, so that it costs half a percent of a core."""
TELL_S_MAX: Final = 8.0
"""Well below `STALE_S`."""

log: Final = logging.getLogger("aliquot.relaying")


class Relaying:
    """Of one server of several."""

    def __init__(self, cases: UseCases, relay: ReadingsRelay) -> None:
        self._state, self._journal, self._clock = cases.state, cases.journal, cases.clock
        self._telling = Telling(state=cases.state, relay=relay, clock=cases.clock)
        self._hearing = Hearing(state=cases.state, relay=relay, clock=cases.clock, leads=lambda: cases.journal.leads)
        self._has_failed = False

    async def run(self) -> None:
        """Go on for ever: whatever fails here costs nothing but the numbers."""
        while True:
            try:
                await (self._telling.run_once(self._journal.epoch) if self._journal.leads else self._hearing.run_once())
                self._has_failed = False
            except StoreUnavailable as error:
                log.debug("the other servers are not told what devices measure: %s", error)
            except Exception:
                if not self._has_failed:
                    log.exception("what devices measure cannot be told to, or heard from, other servers now")
                self._has_failed = True
            raise_if_canceled()
            await self._clock.sleep(self._pause_s())

    def _pause_s(self) -> float:
        if not self._journal.leads:
            return HEAR_S
        return min(max(TELL_S, len(self._state.readings) / DEVICES_PER_S), TELL_S_MAX)
