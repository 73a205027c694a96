"""Trace files: read jobs from CSV, or from Parquet where pyarrow is installed; one row per job, columns of public logs.

Required: submit_s and duration_s (or creation_time and deletion_time, with scheduled_time if it started later), and
gpus (or num_gpu), whole GPUs or a share of one. Optional, per kernel where a job has several:

    gpu_milli_each (or gpu_milli)   1000 = a whole GPU, less = a share of one
    gpu_models (or gpu_spec)        names with `|` between them; empty = any
    gpu_memory_bytes                the minimum memory of each GPU
    cpu_milli, memory_mib           milli-cores, rounded up to whole cores, and MiB
    slots                           all amounts, instead of the columns above: `cpu=4 cuda.shares=0.5 mem=8g`
    cluster_size                    kernels, default 1
    user, group, program, priority, preemptible, requested_walltime_s (-1 = unknown)
"""

import csv
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from aliquot.core.model.snapshot import Request
from aliquot.core.simulation.cluster import CPU, MEM
from aliquot.core.simulation.trace import SECOND_US, Job, gpu_request, numbered
from aliquot_schema.errors import AliquotError, InvalidRequest
from aliquot_schema.ids import ProjectId, SessionId, SlotName, UserId
from aliquot_schema.resources.slots import MILLI, Unlimited, parse_amount
from aliquot_schema.sessions import PRIORITY_FORM, Priority

SYNONYMS: Final[Mapping[str, str]] = {
    "creation_time": "submit_s",
    "num_gpu": "gpus",
    "gpu_milli": "gpu_milli_each",
    "gpu_spec": "gpu_models",
}
Row = Mapping[str, Any]
SECONDS_MAX: Final = 1e10
"""Of a time or a duration, about 300 years; a column in milliseconds is above it."""


def read_jobs(path: Path) -> tuple[Job, ...]:
    """Read the jobs of a trace, by submission. Jobs that ran for no time or requested nothing are left out.

    Raises:
        InvalidRequest: the file is not a trace; the message names the row and the problem.
    """
    jobs: list[Job] = []
    for number, row in enumerate(read_rows(path), start=1):
        try:
            job = _job({SYNONYMS.get(name, name): value for name, value in row.items()})
        except KeyError as error:
            raise InvalidRequest(f"{path}, row {number}: there is no column {error.args[0]}") from error
        except (TypeError, ValueError, OverflowError, AliquotError) as error:
            raise InvalidRequest(f"{path}, row {number}: {type(error).__name__}: {error}") from error
        if job is not None:
            jobs.append(job)
    if not jobs:
        raise InvalidRequest(f"{path} has no job that requested resources and ran")
    return numbered(jobs)


def read_rows(path: Path) -> Iterable[Row]:
    """Read the rows of a table.

    Raises:
        InvalidRequest: the file cannot be read.
    """
    try:
        if path.suffix == ".parquet":
            return _parquet_rows(path)
        with path.open(newline="", encoding="utf-8-sig") as file:
            return list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidRequest(f"{path} cannot be read: {error}") from error


def _parquet_rows(path: Path) -> Iterable[Row]:
    try:
        from pyarrow import ArrowException, parquet  # type: ignore[import-untyped] # it ships no types
    except ImportError:
        raise InvalidRequest(f"{path}: Parquet needs pyarrow (pip install pyarrow); CSV does not") from None
    try:
        rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    except ArrowException as error:
        raise InvalidRequest(f"{path} is not a Parquet file: {error}") from error
    return rows


def _job(row: Row) -> Job | None:
    submit_s, duration_s, request = _seconds(row, "submit_s"), _duration_s(row), _request(row)
    if duration_s <= 0 or not request:
        return None
    group = str(row.get("group") or "all")
    limit_s = _seconds(row, "requested_walltime_s") if row.get("requested_walltime_s") else -1
    return Job(
        id=SessionId(""),
        user=UserId(str(row.get("user") or group)),
        project=ProjectId(group),
        submit_us=round(submit_s * SECOND_US),
        duration_ms=max(round(duration_s * 1000), 1),
        request=request,
        cluster_size=_kernels(row),
        limit_ms=max(round(limit_s * 1000), 1) if limit_s > 0 else None,
        priority=_priority(row),
        preemptible=str(row.get("preemptible") or "").lower() in {"true", "1"},
        gpu_memory_bytes=round(_number(row, "gpu_memory_bytes")) or None,
        program=str(row.get("program") or "") or None,
        models=tuple(re.findall(r"[^|\s][^|]*[^|\s]|[^|\s]", str(row.get("gpu_models") or ""))),
    )


def _duration_s(row: Row) -> float:
    if "deletion_time" in row and "duration_s" not in row:
        began = "scheduled_time" if row.get("scheduled_time") not in (None, "") else "submit_s"
        return _seconds(row, "deletion_time") - _seconds(row, began)
    return _seconds(row, "duration_s")


def _seconds(row: Row, column: str) -> float:
    found = float(row[column])
    if abs(found) > SECONDS_MAX:
        raise ValueError(f"{column}: {found:g} s is more than 300 years")
    return found


def _request(row: Row) -> Request:
    if row.get("slots"):
        return _slots(str(row["slots"]))
    cores = -(-round(_number(row, "cpu_milli")) // 1000)
    amounts = {CPU: cores, MEM: round(_number(row, "memory_mib") * 2**20), **dict(_gpus(row))}
    if any(amount < 0 for amount in amounts.values()):
        raise ValueError("an amount is negative")
    return tuple((slot, amount) for slot, amount in sorted(amounts.items()) if amount)


def _slots(text: str) -> Request:
    amounts: dict[SlotName, int] = {}
    for part in text.split():
        name, _, written = part.partition("=")
        amount = parse_amount(name, written)
        if isinstance(amount, Unlimited):
            raise ValueError(f"{part}: a job cannot request an unlimited amount")
        amounts[SlotName(name)] = amount
    return tuple((slot, amount) for slot, amount in sorted(amounts.items()) if amount)


def _gpus(row: Row) -> Request:
    gpus, each = float(row["gpus"]), _number(row, "gpu_milli_each", default=MILLI)
    if gpus <= 0 or each <= 0:
        return ()
    if each < MILLI and gpus != 1:
        raise ValueError(f"{gpus:g} shares of GPUs: a job requests a share of one GPU, or whole GPUs")
    return gpu_request(max(round(gpus * min(each, MILLI)), 1))


def _kernels(row: Row) -> int:
    kernels = _number(row, "cluster_size", default=1)
    if kernels < 1 or kernels != int(kernels):
        raise ValueError(f"cluster_size: {kernels:g} is not a number of kernels")
    return int(kernels)


def _priority(row: Row) -> Priority:
    written = str(row.get("priority") or Priority.NORMAL.name).upper()
    if written[:1].isdigit():
        return Priority(int(float(written)))
    if written not in Priority.__members__:
        raise ValueError(f"priority: {written[:80]} is not {PRIORITY_FORM}")
    return Priority[written]


def _number(row: Row, column: str, *, default: float = 0) -> float:
    """A number, or the default where the column is missing, empty or null."""
    value = row.get(column)
    return default if value is None or value == "" else float(value)
