"""Settings of history."""

from typing import Final

from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings

from aliquot.service.retention.periods import parse_period
from aliquot.service.setting_errors import wrong
from aliquot.store.history.tiers import DAY_US, HOUR_US, Kept

_LEAST_US: Final = {"keep_readings": 3 * HOUR_US, "keep_minutes": 2 * DAY_US, "keep_hours": 2 * DAY_US}


class HistorySettings(BaseSettings):
    """A part of `aliquot.settings.Settings`."""

    history: bool = Field(
        True, description="Whether what devices and the queue measure is kept, to be looked at later."
    )
    keep_readings: str = Field(
        "24h", description="How long measurements are kept as they were taken, like 24h, or forever."
    )
    keep_minutes: str = Field(
        "30d", description="How long the mean and the highest of each minute are kept; no less than keep-readings."
    )
    keep_hours: str = Field(
        "365d", description="How long the mean and the highest of each hour are kept; no less than keep-minutes."
    )

    @property
    def history_kept(self) -> Kept:
        """How long each tier is kept."""
        return Kept(
            raw_us=parse_period(self.keep_readings),
            minutes_us=parse_period(self.keep_minutes),
            hours_us=parse_period(self.keep_hours),
        )

    @field_validator(*_LEAST_US)
    @classmethod
    def _is_kept(cls, value: str, info: ValidationInfo) -> str:
        try:
            kept_us = parse_period(value)
        except ValueError as error:
            raise wrong(str(error)) from None
        least_us = _LEAST_US[info.field_name or ""]
        if kept_us is not None and kept_us < least_us:
            raise wrong(f"give at least {least_us // HOUR_US}h: it is summed up before it goes")
        return value
