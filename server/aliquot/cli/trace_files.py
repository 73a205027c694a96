"""Trace files: CSV, or Parquet where pyarrow is installed, one row a job, with the columns of public logs.

Needed are submit_s, duration_s and gpus; group, user and requested_walltime_s (seconds, -1 = unknown) may be there.
"""

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from aliquot.core.simulation.trace import SECOND_US, Job, numbered
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import ProjectId, SessionId, UserId

NEEDED: Final = ("submit_s", "duration_s", "gpus")


def read_jobs(path: Path) -> tuple[Job, ...]:
    """The jobs of a trace, by submission. Jobs that ran for no time or used no GPU are left out.

    Raises:
        InvalidRequest: not a trace; the message says what is wrong and where.
    """
    jobs: list[Job] = []
    for number, row in enumerate(_rows(path), start=1):
        try:
            job = _job(row)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidRequest(f"{path}, row {number}: {type(error).__name__}: {error}") from error
        if job is not None:
            jobs.append(job)
    if not jobs:
        raise InvalidRequest(f"{path} has no job that used a GPU")
    return numbered(jobs)


def _rows(path: Path) -> Iterable[Mapping[str, Any]]:
    try:
        if path.suffix == ".parquet":
            return _parquet_rows(path)
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidRequest(f"{path} cannot be read: {error}") from error


def _parquet_rows(path: Path) -> Iterable[Mapping[str, Any]]:
    try:
        from pyarrow import ArrowException, parquet  # type: ignore[import-untyped] # it ships no types
    except ImportError:
        raise InvalidRequest(f"{path}: Parquet needs pyarrow (pip install pyarrow); CSV is read without it") from None
    try:
        rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    except ArrowException as error:
        raise InvalidRequest(f"{path} is no Parquet file: {error}") from error
    return rows


def _job(row: Mapping[str, Any]) -> Job | None:
    submit_s, duration_s, gpus = (float(row[column]) for column in NEEDED)
    if duration_s <= 0 or gpus <= 0:
        return None
    if gpus != int(gpus):
        raise ValueError(f"{gpus} GPUs: only whole ones are simulated")
    group = str(row.get("group") or "all")
    limit_s = float(row.get("requested_walltime_s") or -1)
    return Job(
        id=SessionId(""),
        user=UserId(str(row.get("user") or group)),
        project=ProjectId(group),
        submit_us=round(submit_s * SECOND_US),
        duration_ms=max(round(duration_s * 1000), 1),
        gpus=int(gpus),
        limit_ms=max(round(limit_s * 1000), 1) if limit_s > 0 else None,
    )
