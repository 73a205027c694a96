"""Read models of a session's results: the files below RESULT_DIR, and the metrics of an array's tasks."""

from datetime import UTC, datetime

from msgspec import Struct

from aliquot_schema.cluster.results import ResultFile, ResultListing
from aliquot_schema.metrics import MetricSeries
from aliquot_schema.states import SessionState


class ResultFileView(Struct, frozen=True, kw_only=True):
    """A file below RESULT_DIR."""

    path: str
    size: int
    changed_at: datetime
    sha256: str | None


class SessionFilesView(Struct, frozen=True, kw_only=True):
    """The files of a session, or a page of them."""

    session_id: str
    rank: int
    files: tuple[ResultFileView, ...]
    total_count: int
    """On all pages."""
    bytes_total: int
    left_out: int
    bytes_max: int | None
    files_max: int
    is_over_quota: bool
    has_more: bool = False
    """Whether there are files after this page."""


class TaskMetrics(Struct, frozen=True, kw_only=True):
    """The metrics of a task of a job array."""

    index: int
    session_id: str
    state: SessionState
    series: tuple[MetricSeries, ...]


class TaskMetricsPage(Struct, frozen=True, kw_only=True):
    """The metrics of some tasks, by index."""

    tasks: tuple[TaskMetrics, ...]
    end: int | None
    """Index of the last task that was looked at; None at the end of the array."""


def files_view(
    session_id: str, rank: int, listing: ResultListing, *, first: int | None = None, after: str = ""
) -> SessionFilesView:
    """A listing, or a page of it.

    Args:
        first: files at most; None = all.
        after: path of the last file of the page before.
    """
    rest = [file for file in listing.files if file.path > after]
    page = rest if first is None else rest[:first]
    return SessionFilesView(
        session_id=session_id,
        rank=rank,
        files=tuple(_file_view(file) for file in page),
        total_count=len(listing.files),
        bytes_total=listing.bytes_total,
        left_out=listing.left_out,
        bytes_max=listing.bytes_max,
        files_max=listing.files_max,
        is_over_quota=listing.is_over_quota,
        has_more=len(page) < len(rest),
    )


def _file_view(file: ResultFile) -> ResultFileView:
    changed_us = min(file.changed_ns // 1000, 253_402_300_799_000_000)  # the last second of the year 9999
    changed = datetime.fromtimestamp(changed_us // 1_000_000, UTC).replace(microsecond=changed_us % 1_000_000)
    return ResultFileView(path=file.path, size=file.size, changed_at=changed, sha256=file.sha256)
