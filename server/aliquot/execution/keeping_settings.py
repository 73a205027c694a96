"""Settings of what is kept, for how long, and how much of it."""

from math import inf
from pathlib import Path
from typing import Final

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from aliquot.execution.disk_rules import DiskRules
from aliquot.service.retention.periods import Periods, parse_period
from aliquot.service.setting_errors import wrong
from aliquot_schema.errors import InvalidAmount
from aliquot_schema.sizes import format_size, parse_size

SIZE_MIN: Final = 2**20
"""Of disk sizes: less is a slip of the pen."""


class KeepingSettings(BaseSettings):
    """A part of `aliquot.settings.Settings`."""

    keep_sessions: str = Field("365d", description="How long sessions that have ended are kept, like 365d, or forever.")
    keep_events: str = Field(
        "90d", description="How long the event log is kept; passes that can be replayed keep theirs."
    )
    keep_ledger: str = Field("30d", description="How long decisions can be replayed.")
    keep_findings: str = Field(
        "90d", description="How long what the reaper found, alerts and sent notices are kept once they are over."
    )
    keep_logs: str = Field("30d", description="How long agents keep the outputs of kernels that have ended.")
    keep_results: str = Field(
        "365d", description="How long agents keep checkpoints and results of sessions, after their last change."
    )
    archive: bool = Field(True, description="Whether what is old is written to Parquet files before it is removed.")
    archive_folder: Path | None = Field(
        None, description="Where these files go; without one, server/archive in the data folder."
    )
    disk_floor: str | None = Field(
        None,
        description="How much has to stay free on a disk for something new to be launched, like 5g; "
        "without it 1g, or 2 % of a small disk.",
    )
    output_max: str = Field(
        "1g", description="How much of one job's output is kept: its beginning and its end; 0 for all of it."
    )

    @property
    def periods(self) -> Periods:
        """How long each kind of history is kept."""
        return Periods(
            sessions_us=parse_period(self.keep_sessions),
            events_us=parse_period(self.keep_events),
            ledger_us=parse_period(self.keep_ledger),
            findings_us=parse_period(self.keep_findings),
        )

    @property
    def disk_rules(self) -> DiskRules:
        """What holds on the disks of jobs and servers."""
        return DiskRules(
            output_bytes_max=parse_size(self.output_max) or None,
            outputs_kept_s=_seconds(self.keep_logs) or inf,
            results_kept_s=_seconds(self.keep_results),
            bytes_min=None if self.disk_floor is None else parse_size(self.disk_floor),
        )

    @field_validator("keep_sessions", "keep_events", "keep_ledger", "keep_findings", "keep_logs", "keep_results")
    @classmethod
    def _is_period(cls, value: str) -> str:
        try:
            parse_period(value)
        except ValueError as error:
            raise wrong(str(error)) from None
        return value

    @field_validator("disk_floor", "output_max")
    @classmethod
    def _is_size(cls, value: str | None) -> str | None:
        try:
            size = 0 if value is None else parse_size(value)
        except InvalidAmount as error:
            raise wrong(error.message) from None
        if 0 < size < SIZE_MIN:
            raise wrong(f"give at least {format_size(SIZE_MIN)}, or 0")
        return value


def _seconds(period: str) -> float | None:
    kept_us = parse_period(period)
    return None if kept_us is None else kept_us / 1e6
