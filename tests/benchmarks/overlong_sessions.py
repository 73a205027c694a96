"""How many sessions count as far beyond their predicted time, on public logs of jobs."""

import heapq
from pathlib import Path
from typing import Any, Final

from registry import Key, scenario

from aliquot.core.prediction import Predictor, Workload
from aliquot_schema.ids import UserId
from simulation import FOLDER

LOGS: Final = {"kth_sp2": ("user", "requested_walltime_s"), "philly_vc": ("group", None)}
"""File, the column of the submitter, and that of the time limit."""
JOBS_MAX: Final = 30_000
ABSENT: Final = "no logs of jobs: set ALIQUOT_TRACES to a folder with jobs/kth_sp2.parquet and jobs/philly_vc.parquet"


@scenario(
    Key(name="overlong_pct_kth_sp2", what="predicted jobs reported as far beyond their time, KTH-SP2", reach="<= 2"),
    Key(name="overlong_pct_philly_vc", what="predicted jobs reported as far beyond their time, Philly", reach="<= 2"),
)
async def overlong_sessions() -> dict[str, float]:
    """The logs do not say which jobs hung, so each report counts: an upper bound of false alarms."""
    found = {}
    for name, columns in LOGS.items():
        file = FOLDER.parent / "jobs" / f"{name}.parquet"
        if not file.exists():
            raise RuntimeError(ABSENT)
        found[f"overlong_pct_{name}"] = _reported_pct(file, *columns)
    return found


def _reported_pct(file: Path, person: str, limit: str | None) -> float:
    import pyarrow.parquet as parquet

    rows: list[dict[str, Any]] = sorted(parquet.read_table(file).to_pylist(), key=lambda row: row["submit_s"])
    predictor, reported, predicted = Predictor(), 0, 0
    ends: list[tuple[float, int, Workload, int]] = []
    for number, row in enumerate(rows[:JOBS_MAX]):
        starts_s = row["submit_s"] + (row.get("orig_wait_s") or 0)
        while ends and ends[0][0] <= starts_s:
            _, _, ended, ran_ms = heapq.heappop(ends)
            predictor.learn(ended, duration_ms=ran_ms)
        limit_ms = None if limit is None or not row[limit] else int(row[limit]) * 1000
        milli = int(row["gpus"]) * 1000
        asked = Workload(user=UserId(str(row[person])), program=None, milli=milli, limit_ms=limit_ms)
        lasts_ms, known = int(row["duration_s"]) * 1000, predictor.predict(asked)
        heapq.heappush(ends, (starts_s + row["duration_s"], number, asked, lasts_ms))
        if known is not None:
            predicted += 1
            reported += known.is_exceeded(lasts_ms)
    return 100 * reported / predicted
