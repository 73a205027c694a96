"""Tiers: how fine measurements are kept, and for how long."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

SECOND_US: Final = 1_000_000
MINUTE_US: Final = 60 * SECOND_US
HOUR_US: Final = 60 * MINUTE_US
DAY_US: Final = 24 * HOUR_US


class Tier(IntEnum):
    """Each is summed up in the next one."""

    RAW = 0
    MINUTES = 1
    HOURS = 2


STEP_US: Final = {Tier.MINUTES: MINUTE_US, Tier.HOURS: HOUR_US}
"""The time that one value of a tier stands for."""
WINDOW_US: Final = {Tier.RAW: 5 * MINUTE_US, Tier.MINUTES: HOUR_US, Tier.HOURS: DAY_US}
"""The time that one block is of, at most. Those of summed-up tiers begin at multiples of it. Raw ones are lost with the
process while they are in memory alone: five minutes at most."""
REACH_US: Final = {Tier.RAW: WINDOW_US[Tier.RAW] - 1, Tier.MINUTES: 0, Tier.HOURS: 0}
"""How far a block may reach beyond a multiple of the window above."""
BELOW: Final = {Tier.MINUTES: Tier.RAW, Tier.HOURS: Tier.MINUTES}
MARGIN_US: Final = 2 * WINDOW_US[Tier.RAW]
"""After the end of an hour, before it is summed up: the last blocks of it are written by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """How long each tier is kept, microseconds; None = for ever."""

    raw_us: int | None = DAY_US
    minutes_us: int | None = 30 * DAY_US
    hours_us: int | None = 365 * DAY_US

    def of(self, tier: Tier) -> int | None:
        """By tier. Each is kept at least as long as what it sums up: what is seen from afar is read from it alone."""
        finer = (self.raw_us, self.minutes_us, self.hours_us)[: tier + 1]
        known = [kept_us for kept_us in finer if kept_us is not None]
        return max(known) if len(known) == len(finer) else None

    def finest(self, since_us: int, *, now_us: int) -> Tier:
        """The finest tier that still has what was measured at a time."""
        for tier in (Tier.RAW, Tier.MINUTES):
            kept_us = self.of(tier)
            if kept_us is None or since_us >= now_us - kept_us:
                return tier
        return Tier.HOURS
