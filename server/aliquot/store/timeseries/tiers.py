"""Storage tiers: the resolution of each tier of time series, its retention, and the settings for them."""

from enum import IntEnum
from typing import Final

from msgspec import Struct
from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings

from aliquot.service.retention import parse_period
from aliquot.service.setting_errors import wrong

SECOND_US: Final = 1_000_000
MINUTE_US: Final = 60 * SECOND_US
HOUR_US: Final = 60 * MINUTE_US
DAY_US: Final = 24 * HOUR_US


class Tier(IntEnum):
    """Each tier is rolled up into the next one."""

    RAW = 0
    MINUTES = 1
    HOURS = 2


STEP_US: Final = {Tier.MINUTES: MINUTE_US, Tier.HOURS: HOUR_US}
"""Time per value of a tier."""
WINDOW_US: Final = {Tier.RAW: 5 * MINUTE_US, Tier.MINUTES: HOUR_US, Tier.HOURS: DAY_US}
"""Maximum time per block. Blocks of minutes and hours begin at multiples of it. A raw block is only in memory until its
window ends, so a crash loses at most five minutes."""
REACH_US: Final = {Tier.RAW: WINDOW_US[Tier.RAW] - 1, Tier.MINUTES: 0, Tier.HOURS: 0}
"""How far a block may reach beyond the end of the next tier's window."""
BELOW: Final = {Tier.MINUTES: Tier.RAW, Tier.HOURS: Tier.MINUTES}
MARGIN_US: Final = 2 * WINDOW_US[Tier.RAW]
"""Delay of a rollup after the end of its window, so that the last blocks are written by then."""


class TierRetention(Struct, frozen=True, kw_only=True):
    """Retention of each tier, microseconds; None = forever."""

    raw_us: int | None = DAY_US
    minutes_us: int | None = 30 * DAY_US
    hours_us: int | None = 365 * DAY_US

    def of(self, tier: Tier) -> int | None:
        """Retention of a tier, at least that of finer tiers: coarse reads use this tier only."""
        finer = (self.raw_us, self.minutes_us, self.hours_us)[: tier + 1]
        known = [kept_us for kept_us in finer if kept_us is not None]
        return max(known) if len(known) == len(finer) else None

    def finest(self, since_us: int, *, now_us: int) -> Tier:
        """The finest tier that still has samples of a time."""
        for tier in (Tier.RAW, Tier.MINUTES):
            kept_us = self.of(tier)
            if kept_us is None or since_us >= now_us - kept_us:
                return tier
        return Tier.HOURS


_MIN_US: Final = {"keep_readings": 3 * HOUR_US, "keep_minutes": 2 * DAY_US, "keep_hours": 2 * DAY_US}


class HistorySettings(BaseSettings):
    """Settings of time series, a part of `aliquot.settings.Settings`."""

    history: bool = Field(
        True, description="Whether measurements of devices and of the queue are stored for later queries."
    )
    keep_readings: str = Field(
        "24h", description="How long measurements are kept at full resolution, like 24h, or forever."
    )
    keep_minutes: str = Field(
        "30d", description="How long the mean and the maximum of each minute are kept; at least keep-readings."
    )
    keep_hours: str = Field(
        "365d", description="How long the mean and the maximum of each hour are kept; at least keep-minutes."
    )

    @property
    def history_kept(self) -> TierRetention:
        """How long each tier is kept."""
        return TierRetention(
            raw_us=parse_period(self.keep_readings),
            minutes_us=parse_period(self.keep_minutes),
            hours_us=parse_period(self.keep_hours),
        )

    @field_validator(*_MIN_US)
    @classmethod
    def _is_kept(cls, value: str, info: ValidationInfo) -> str:
        try:
            kept_us = parse_period(value)
        except ValueError as error:
            raise wrong(str(error)) from None
        min_us = _MIN_US[info.field_name or ""]
        if kept_us is not None and kept_us < min_us:
            raise wrong(f"give at least {min_us // HOUR_US}h, the time until the data is summarised")
        return value
