"""Trace output: writes jobs as a trace file that `read_jobs` reads."""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from aliquot.core.simulation.trace import SECOND_US, Job
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.resources.slots import MILLI, format_amount

Cell = str | int | float | None
SUFFIXES: Final = (".csv", ".parquet")


def check_target(path: Path) -> None:
    """Check that a trace can be written there, before a long read.

    Raises:
        InvalidRequest: another kind of file, or pyarrow is missing.
    """
    if path.suffix not in SUFFIXES:
        raise InvalidRequest(f"{path}: a trace is saved as {' or '.join(SUFFIXES)}", field="save")
    if path.suffix == ".parquet":
        try:
            import pyarrow  # type: ignore[import-untyped] # noqa: F401 # it ships no types
        except ImportError:
            raise InvalidRequest(f"{path}: Parquet needs pyarrow (pip install pyarrow); CSV does not") from None


def save_jobs(jobs: Iterable[Job], path: Path) -> None:
    """Write the jobs, with the columns that `read_jobs` reads.

    Raises:
        InvalidRequest: the file cannot be written.
    """
    rows = [_row(job) for job in jobs]
    try:
        if path.suffix == ".parquet":
            from pyarrow import Table, parquet

            parquet.write_table(Table.from_pylist(rows), path)
        else:
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, fieldnames=list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be written: {error.strerror or error}", field="save") from error


def _row(job: Job) -> dict[str, Cell]:
    return {
        "job_id": job.id,
        "user": job.user,
        "group": job.project,
        "program": job.program or "",
        "submit_s": job.submit_us / SECOND_US,
        "duration_s": job.duration_ms / 1000,
        "gpus": job.milli / MILLI,
        "requested_walltime_s": -1 if job.limit_ms is None else job.limit_ms / 1000,
        "slots": " ".join(f"{slot}={format_amount(slot, amount)}" for slot, amount in job.request),
        "cluster_size": job.cluster_size,
        "gpu_memory_bytes": job.gpu_memory_bytes or 0,
        "gpu_models": "|".join(job.models),
        "priority": job.priority.name.lower(),
        "preemptible": int(job.preemptible),
    }
