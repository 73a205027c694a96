"""Disk and retention settings: data folder, minimum free space, output size, and how long history is kept."""

import os
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Final

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from aliquot.service.retention import Periods, parse_period
from aliquot.service.setting_errors import wrong
from aliquot_schema.errors import InvalidAmount
from aliquot_schema.resources.units import parse_size, size_text

OUTPUT_BYTES_MAX: Final = 2**30
FLOOR_BYTES: Final = 2**30
SHARE: Final = 50
"""Divisor: on a small file system 1/50 of its size must stay free instead of `FLOOR_BYTES`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRules:
    """Limits on the disks of jobs and servers."""

    output_bytes_max: int | None = OUTPUT_BYTES_MAX
    """Limit of one kernel's output on disk; the middle of a longer one is cut out, see `OutputLimit`. None = none."""
    outputs_kept_s: float = 30 * 86_400.0
    """Retention of kernel outputs, counted from the kernel's end."""
    results_kept_s: float | None = 365 * 86_400.0
    """Retention of sessions' checkpoints and results, counted from their last change; None = for ever."""
    bytes_min: int | None = None
    """Free space required to launch a kernel; None = the smaller of 1 GiB and 2 % of the file system."""

    def shortage(self, folder: Path) -> str | None:
        """Message if the file system of `folder` has too little free space, else None. Blocks on disk I/O.

        Blocks reserved for root do not count as free. A file system that cannot be read counts as having space.
        """
        try:
            space = os.statvfs(folder)
        except OSError:
            return None
        free = space.f_bavail * space.f_frsize
        total = space.f_blocks * space.f_frsize
        least = min(FLOOR_BYTES, total // SHARE) if self.bytes_min is None else self.bytes_min
        if free >= least:
            return None
        return f"the disk of {folder} has {size_text(free)} free; {size_text(least)} must stay free"


SIZE_MIN: Final = 2**20
"""Smallest size that a disk setting accepts; smaller values are taken for typing errors."""


class KeepingSettings(BaseSettings):
    """Retention and disk part of `aliquot.settings.Settings`."""

    keep_sessions: str = Field("365d", description="Retention of ended sessions: a period like 365d, or forever.")
    keep_events: str = Field(
        "90d", description="Retention of the event log; events of passes that can be replayed are kept longer."
    )
    keep_ledger: str = Field("30d", description="Retention of scheduling decisions for replay.")
    keep_findings: str = Field("90d", description="Retention of closed reaper findings, alerts and sent notifications.")
    keep_logs: str = Field("30d", description="Retention of job outputs on agents, counted from the job's end.")
    keep_results: str = Field(
        "365d", description="Retention of checkpoints and results on agents, counted from their last change."
    )
    archive: bool = Field(True, description="Whether expired records are written to Parquet files before deletion.")
    archive_folder: Path | None = Field(
        None, description="Folder of these Parquet files; default: server/archive in the data folder."
    )
    disk_floor: str | None = Field(
        None,
        description="Free disk space required to launch a job, like 5g; default: 1g, or 2 % of a disk below 50g.",
    )
    output_max: str = Field(
        "1g", description="Maximum size of one job's output; the middle of a longer one is discarded. 0 = unlimited."
    )

    @property
    def periods(self) -> Periods:
        """Retention of each kind of history."""
        return Periods(
            sessions_us=parse_period(self.keep_sessions),
            events_us=parse_period(self.keep_events),
            ledger_us=parse_period(self.keep_ledger),
            findings_us=parse_period(self.keep_findings),
        )

    @property
    def disk_rules(self) -> DiskRules:
        """The disk limits as numbers."""
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
            raise wrong(f"give at least {size_text(SIZE_MIN)}, or 0")
        return value


def _seconds(period: str) -> float | None:
    kept_us = parse_period(period)
    return None if kept_us is None else kept_us / 1e6


FOLDER_VARIABLE: Final = "ALIQUOT_DATA_FOLDER"


def default_data_folder() -> Path:
    """$ALIQUOT_DATA_FOLDER; else `/var/lib/aliquot` for root, `~/.local/share/aliquot` for other users."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    return Path("/var/lib/aliquot") if os.geteuid() == 0 else Path.home() / ".local" / "share" / "aliquot"
