"""Sessions of an archive as a trace."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aliquot.core.program import program_of
from aliquot.core.simulation.trace import Job, numbered
from aliquot.store.archive.folder import SUFFIX, rows_of
from aliquot.store.encoding import decoder
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import ProjectId, SessionId, SlotName, UserId
from aliquot_schema.sessions import Priority, SessionSpec
from aliquot_schema.slots import Unlimited

_SPEC = decoder(SessionSpec)


def read_archive(folder: Path) -> tuple[Job, ...]:
    """Every archived session that ran and ended, by submission.

    Raises:
        InvalidRequest: there is none.
        StoreUnavailable: a file cannot be read, or pyarrow is missing.
    """
    files = sorted(folder.glob(f"sessions-*{SUFFIX}"))
    if not files:
        raise InvalidRequest(f"{folder} has no archived sessions; they are called sessions-000001{SUFFIX} and so on")
    # One that was run again after it had been archived is in several files: the newest counts.
    newest = {row["id"]: row for file in files for row in _rows(file)}
    jobs = numbered(_job(row) for row in newest.values() if row["started_us"] and row["attempt"])
    if not jobs:
        raise InvalidRequest(f"no session in {folder} has run and ended")
    return jobs


def _rows(file: Path) -> Iterator[Mapping[str, Any]]:
    for rows in rows_of(file):
        yield from rows


def _job(row: Mapping[str, Any]) -> Job:
    spec: SessionSpec = _SPEC.decode(row["spec"])
    amounts = sorted((slot, amount) for slot, amount in spec.slots.items() if not isinstance(amount, Unlimited))
    return Job(
        id=SessionId(""),
        user=UserId(row["owner"]),
        project=ProjectId(row["project"]),
        submit_us=row["queued_us"],
        duration_ms=max((row["ended_us"] - row["started_us"]) // 1000, 1),
        request=tuple((SlotName(slot), amount) for slot, amount in amounts),
        cluster_size=spec.cluster_size,
        limit_ms=spec.time_limit_ms,
        priority=Priority(row["priority"]),
        preemptible=spec.preemptible,
        program=program_of(spec.argv),
        gpu_memory_bytes=spec.gpu_memory_bytes,
        models=spec.models,
    )
