"""Our figures beside Slurm's, one after the other on the same machine."""

import asyncio
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from crash import server_alone
from registry import chosen, written
from slurm import configuration, measures
from slurm.daemons import Slurm, slurm


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement of both."""

    key: str
    what: str


ROWS: Final = (
    Row(key="submit_per_s_1", what="submissions acknowledged per second, one client"),
    Row(key="submit_per_s_64", what="the same, 64 clients"),
    Row(key="submit_array_2000_s", what="an array of 2,000 tasks: acknowledged, s"),
    Row(key="start_latency_p50_s", what="submit -> first line, idle cluster (sbatch), s"),
    Row(key="srun_latency_p50_s", what="the same by srun, which has no counterpart here, s"),
    Row(key="jobs_per_s", what="`true` jobs submitted, run and finished per second, 64 GPUs"),
    Row(key="list_first_100_s", what="first 100 of 10,000 pending (squeue has no pages: all), s"),
    Row(key="list_json_s", what="all 10,000 pending as JSON (squeue --json), s"),
    Row(key="restart_s", what="restart with 10,000 pending and 64 running, until it answers, s"),
    Row(key="crash_acknowledged", what="acknowledged before kill -9 while submitting, three times"),
    Row(key="crash_lost", what="of these, lost"),
    Row(key="crash_id_reused", what="of these, the id was given again"),
)

NOTES: Final = (
    "Submissions here are HTTP requests on kept connections, answered after the commit is on the disk; Slurm's are "
    "sbatch, a process each, whose start is part of the figure.",
    "Slurm answers before it saves: its state is written every few seconds by a thread, and synced then. Both have "
    "their files on the same file system.",
    "Slurm runs with proctrack/linuxproc and task/none, without accounting, one node with 64 GPUs that are /dev/null. "
    f"Tuned: {configuration.TUNED.splitlines()[0]}, and errors alone in its logs.",
    "The columns were measured one after the other: what else the machine did may weigh on one more than on another.",
)


COLUMNS: Final = {"aliquot": "Aliquot", "slurm_default": "Slurm", "slurm_tuned": "Slurm, tuned"}


def table(figures: Mapping[str, Mapping[str, float]]) -> list[list[str]]:
    """The result of `compare` as rows of text, the header first; a dash for a missing value."""
    head = ["", *COLUMNS.values()]
    return [head, *([row.what, *(_cell(figures[column], row.key) for column in COLUMNS)] for row in ROWS)]


def compare() -> dict[str, dict[str, float]]:
    """Measure all three, and return the figures by column and key."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that nothing is left running
    return {"aliquot": asyncio.run(_ours()), **_slurm_by_configuration()}


async def _ours() -> dict[str, float]:
    found: dict[str, float] = {}
    wanted = frozenset(row.key for row in ROWS) & {key.name for one in chosen(frozenset()) for key in one.keys}
    for one in chosen(wanted - {"crash_lost", "crash_id_reused"}):
        _tell(f"Aliquot: {', '.join(key.name for key in one.keys)}")
        found |= await one.run()
    _tell("Aliquot: crash_lost")
    found |= await server_alone()
    return {row.key: found[row.key] for row in ROWS if row.key in found}


def _slurm_by_configuration() -> dict[str, dict[str, float]]:
    """The queue of 10,000 is filled once and used by both: each of them starts from the saved state."""
    with slurm() as cluster:
        _tell("Slurm as it comes")
        cluster.start(tuning=configuration.DEFAULT)
        default = _from_idle(cluster)
        _tell("Slurm: filling its queue")
        measures.fill(cluster)
        default |= measures.full_queue_measures(cluster)
        cluster.stop()
        _tell("Slurm tuned")
        cluster.start(tuning=configuration.TUNED)
        tuned = measures.full_queue_measures(cluster)
    with slurm() as cluster:
        cluster.start(tuning=configuration.TUNED)
        tuned |= _from_idle(cluster)
    default |= _crash(configuration.DEFAULT)
    tuned |= _crash(configuration.TUNED)
    return {"slurm_default": default, "slurm_tuned": tuned}


def _from_idle(cluster: Slurm) -> dict[str, float]:
    """Leaves all GPUs held and some jobs pending."""
    return measures.idle_measures(cluster) | measures.submission_measures(cluster)


def _crash(tuning: str) -> dict[str, float]:
    """On its own cluster: duplicate ids make Slurm drain its node."""
    _tell("Slurm: kill -9 while submitting")
    with slurm() as cluster:
        cluster.start(tuning=tuning)
        return measures.crash_measures(cluster)


def _cell(figures: Mapping[str, float], key: str) -> str:
    return written(figures[key]) if key in figures else "-"


def _tell(what: str) -> None:
    print(f"measuring {what} ...", file=sys.stderr, flush=True)
