"""Disk and retention settings: data folder, minimum free space, output size, and how long history is kept."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Final

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from aliquot.service.retention import Periods, parse_period
from aliquot.service.setting_errors import wrong
from aliquot_schema.cluster.agents import LABEL_CHARS_MAX, LABELS_MAX
from aliquot_schema.cluster.results import LISTED_MAX
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
    checkpoint_folder: Path | None = None
    """Folder that all agents see, for copies of acknowledged checkpoints; None = they stay on their agent."""
    results_folder: str | None = None
    """Folder that all agents and servers see, or `s3://BUCKET/PREFIX`, for copies of results; None = they stay on their
    agent."""
    results_bytes_max: int | None = None
    """Quota of one session's results on an agent; None = none."""
    results_files_max: int = LISTED_MAX
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
    checkpoint_folder: Path | None = Field(
        None,
        description="Folder that all agents see, for copies of acknowledged checkpoints; without it a session that "
        "moves to another agent starts over.",
    )
    results_folder: str | None = Field(
        None,
        description="Where results are copied to when a session ends, so that they outlive its node: a folder that all "
        "agents and servers see, or s3://BUCKET/PREFIX (pip install 'aliquot[s3]').",
    )
    results_max: str = Field(
        "100g", description="Quota of the size of one session's results; more is not copied. 0 = unlimited."
    )
    results_files_max: int = Field(
        LISTED_MAX, ge=1, le=LISTED_MAX, description="Quota of the number of one session's results."
    )
    workspaces_folder: str | None = Field(
        None,
        description="Where uploaded working directories are stored: a folder, or s3://BUCKET/PREFIX, that all servers "
        "see; default: server/workspaces in the data folder.",
    )
    workspace_max: str = Field("1g", description="Maximum size of one uploaded working directory.")
    workspaces_max: str = Field("10g", description="Quota of one user's uploaded working directories.")
    keep_workspaces: str = Field("30d", description="Retention of uploaded working directories after their last use.")
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
            checkpoint_folder=self.checkpoint_folder,
            results_folder=self.results_folder,
            results_bytes_max=parse_size(self.results_max) or None,
            results_files_max=self.results_files_max,
            bytes_min=None if self.disk_floor is None else parse_size(self.disk_floor),
        )

    @property
    def workspaces_kept_s(self) -> float:
        """Retention of workspaces, seconds."""
        return _seconds(self.keep_workspaces) or inf

    @field_validator(
        "keep_sessions", "keep_events", "keep_ledger", "keep_findings", "keep_logs", "keep_results", "keep_workspaces"
    )
    @classmethod
    def _is_period(cls, value: str) -> str:
        try:
            parse_period(value)
        except ValueError as error:
            raise wrong(str(error)) from None
        return value

    @field_validator("results_folder", "workspaces_folder")
    @classmethod
    def _is_place(cls, value: str | None) -> str | None:
        if value is None or re.fullmatch(r"/.+|s3://[^/]+(/.*)?", value):
            return value
        raise wrong("give the absolute path of a folder, or s3://BUCKET/PREFIX")

    @field_validator("disk_floor", "output_max", "results_max", "workspace_max", "workspaces_max")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRules:
    """Where labels and eviction notices come from."""

    labels: Mapping[str, str] = field(default_factory=dict)
    labels_file: Path | None = None
    """Lines `NAME=VALUE`; its labels replace those of `labels` with the same name."""
    eviction_command: str | None = None
    """A shell command that exits with 0 once the node is about to be taken away; its output is the reason."""
    interval_s: float = 5.0
    """Between two readings of the file, and two runs of the command."""


def parse_labels(text: str) -> dict[str, str]:
    """Labels from lines `NAME=VALUE`; empty lines and lines that begin with `#` are skipped.

    Raises:
        ValueError: a line is no label; the message has its number.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        is_text = (name + value).isprintable() and max(len(name), len(value)) <= LABEL_CHARS_MAX
        if not (name and equals and is_text):
            raise ValueError(f"line {number} is no NAME=VALUE of at most {LABEL_CHARS_MAX} printable characters each")
        found[name] = value
    if len(found) > LABELS_MAX:
        raise ValueError(f"it has {len(found)} labels; {LABELS_MAX} are allowed")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRules:
    """How faults of devices are noticed, and how a device in quarantine returns."""

    exporter: str | None = None
    """URL of the metrics of a dcgm-exporter, used instead of NVML's events."""
    checks: tuple[tuple[str, ...], ...] = ()
    """Commands that a device must pass, in order; its id is added as the last argument."""
    check_interval_s: float = 60.0


def usual_checks() -> tuple[tuple[str, ...], ...]:
    """`aliquot selftest --device`, and DCGM's short diagnosis where it is installed."""
    own = (sys.executable, "-m", "aliquot", "selftest", "--real", "--device")
    dcgm = shutil.which("dcgmi")
    return (own,) if dcgm is None else (own, (dcgm, "diag", "-r", "1", "-i"))


class NodeSettings(BaseSettings):
    """Part of `aliquot.settings.Settings` about this host as a node."""

    node_labels: str = Field(
        "", description="Labels of this node, like switch=s3,rack=r1,spot=true; operators may add and replace labels."
    )
    node_labels_file: Path | None = Field(
        None, description="A file with more of them, one NAME=VALUE per line; it is read again every few seconds."
    )
    eviction_command: str | None = Field(
        None,
        description="A shell command, run every 5 seconds, that exits with 0 once this node is about to be taken away; "
        "its output is the reason.",
    )

    dcgm_exporter: str | None = Field(
        None, description="URL of a dcgm-exporter's metrics; faults of GPUs are then read there instead of from NVML."
    )
    device_check: str | None = Field(
        None,
        description="The command that a GPU in quarantine must pass to return, with its id added; by default "
        "aliquot selftest --real --device, and dcgmi diag -r 1 where it is installed.",
    )
    device_check_interval_s: float = Field(60.0, gt=0, description="Seconds between two checks of a GPU in quarantine.")

    @property
    def health_rules(self) -> HealthRules:
        """How faults of this node's devices are noticed."""
        own = () if self.device_check is None else (tuple(shlex.split(self.device_check)),)
        return HealthRules(
            exporter=self.dcgm_exporter, checks=own or usual_checks(), check_interval_s=self.device_check_interval_s
        )

    @property
    def node_notices(self) -> NoticeRules:
        """Where the agents of this node get labels and eviction notices from."""
        return NoticeRules(
            labels=parse_labels(self.node_labels.replace(",", "\n")),
            labels_file=self.node_labels_file,
            eviction_command=self.eviction_command,
        )

    @field_validator("node_labels")
    @classmethod
    def _are_labels(cls, text: str) -> str:
        try:
            parse_labels(text.replace(",", "\n"))
        except ValueError as error:
            raise wrong(f"node-labels: {text!r} is not like switch=s3,rack=r1: {error}") from None
        return text
