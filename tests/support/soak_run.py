"""Soak with real processes: jobs at a fixed rate, kill -9 of the server at intervals, and its resource usage.

PYTHONPATH=tests/support python -m soak_run --minutes 90 --jobs-per-s 20 --kill-every-s 300
"""

import argparse
import asyncio
import os
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from typing import Final

import psutil

from aliquot_schema.async_tasks import run_shielded
from e2e_sessions import submit
from failover_cluster import FailoverCluster, failover_cluster
from soak_figures import HEAD, Drift, Sample, drift

AGENTS: Final = 2
SAMPLES: Final = 180
"""Per soak, at least a second apart."""
WARM_S: Final = 90.0
"""A server's memory grows for about this long after a start, which the slopes leave out."""
UNDER_WAY_MAX: Final = 400
"""Unacknowledged submissions; later ones wait."""
FULL_JOBS: Final = 12_000
"""With this many ended jobs, a server keeps the newest 10,000 in memory."""
FULL: Final = f"server RSS after {FULL_JOBS:,} jobs, MB"
JOBS_MIN: Final = 100
"""Ended jobs before sizes per job are measured."""
SETTLE_S_MAX: Final = 300.0
LISTED: Final = "SELECT state, queued_us, started_us, attempt FROM sessions ORDER BY queued_us, id"
BYTES_PER_MB: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakPlan:
    """Duration, job rate, kill interval."""

    seconds: float
    jobs_per_s: float
    kill_every_s: float


@dataclass(slots=True, kw_only=True)
class Soaked:
    """The results."""

    plan: SoakPlan
    acknowledged: int = 0
    completed: int = 0
    repeated: int = 0
    """Sessions with more than one attempt."""
    kills: int = 0
    is_up: bool = True
    """Whether the server answers; only then it is measured."""
    samples: dict[str, list[Sample]] = field(default_factory=lambda: {"server": [], "agents": [], "database": []})
    waits_s: list[tuple[float, float]] = field(default_factory=list)
    """For each job: when it was queued, in seconds since the start of the soak, and its wait."""

    def drifts(self) -> list[Drift]:
        """The slope of each figure that has one."""
        warm_s = min(WARM_S, self.plan.kill_every_s / 3)
        found = []
        for part, names in (
            ("server", ("server RSS, MB", FULL, "server descriptors", "server threads")),
            ("agents", ("agents' RSS, MB", "agents' descriptors", "agents' threads", "agents' tasks and shims")),
            ("database", ("database, KB per job", "agents' entries per job")),
        ):
            found += [drift(name, self.samples[part], warm_s=warm_s) for name in names]
        found.append(drift("median wait of a minute, ms", self._waits()))
        return [one for one in found if one is not None]

    def by_name(self) -> dict[str, Drift]:
        return {one.name: one for one in self.drifts()}

    def _waits(self) -> list[Sample]:
        bin_s = min(60.0, self.plan.seconds / 10)
        bins: dict[int, list[float]] = {}
        for at_s, waited_s in self.waits_s:
            bins.setdefault(int(at_s / bin_s), []).append(waited_s)
        return [
            Sample(at_s=number * bin_s, life=0, values={"median wait of a minute, ms": 1000 * median(waits)})
            for number, waits in sorted(bins.items())
        ]

    def page(self) -> str:
        """As Markdown."""
        waits = [waited for _, waited in self.waits_s]
        p99 = quantiles(waits, n=100)[98] if len(waits) > 1 else 0.0
        plan = self.plan
        return "\n".join(
            (
                f"{plan.seconds / 60:g} minutes at {plan.jobs_per_s:g} jobs/s, kill -9 of the server every "
                f"{plan.kill_every_s:g} s ({self.kills} kills); {time.strftime('%Y-%m-%d', time.gmtime())}, "
                f"{psutil.cpu_count()} cores, Python {platform.python_version()}.",
                "",
                f"{self.acknowledged:,} jobs were acknowledged, {self.completed:,} completed, {self.repeated} were "
                f"started again. Wait from submission to start: p50 {1000 * median(waits or [0.0]):,.0f} ms, "
                f"p99 {1000 * p99:,.0f} ms, kills included.",
                "",
                HEAD,
                *(one.words() for one in self.drifts()),
            )
        )


async def soak(folder: Path, plan: SoakPlan) -> Soaked:
    """Run a soak until every job has ended; the database is SQLite."""
    found = Soaked(plan=plan)
    database = folder / "soak.db"
    async with failover_cluster(f"sqlite:///{database}", agents=AGENTS, environment={}) as on:
        began, wall_us = time.monotonic(), time.time_ns() // 1000
        measuring = asyncio.create_task(_measure(on, database, found, began))
        killing = asyncio.create_task(_kill(on, found))
        try:
            await _submit_all(on, found)
            killing.cancel()
            with suppress(asyncio.CancelledError):
                await killing
            await _until_ended(database, found.acknowledged)
        finally:
            for task in (measuring, killing):
                task.cancel()
            ends = await asyncio.gather(measuring, killing, return_exceptions=True)
        faults = [end for end in ends if isinstance(end, Exception)]
        if faults:
            raise faults[0]
        _take_stock(database, found, wall_us)
    return found


async def _submit_all(on: FailoverCluster, found: Soaked) -> None:
    """Submit one job every `1 / jobs_per_s`, retried until acknowledged."""
    room = asyncio.Semaphore(UNDER_WAY_MAX)
    end = time.monotonic() + found.plan.seconds
    due = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for number in count():
            if due >= end:
                return
            await asyncio.sleep(max(due - time.monotonic(), 0))
            await room.acquire()
            tasks.create_task(_submit(on, found, f"job-{number}", room))
            due = max(due + 1 / found.plan.jobs_per_s, time.monotonic() - 1)


async def _submit(on: FailoverCluster, found: Soaked, key: str, room: asyncio.Semaphore) -> None:
    try:
        await on.retried(lambda client: submit(client, "true", {"cuda.device": "1"}, idempotency_key=key))
        found.acknowledged += 1
    finally:
        room.release()


async def _kill(on: FailoverCluster, found: Soaked) -> None:
    while True:
        await asyncio.sleep(found.plan.kill_every_s)
        found.is_up = False
        found.kills += 1
        await on.servers[0].kill()
        await run_shielded(on.servers[0].start())
        found.is_up = True


async def _measure(on: FailoverCluster, database: Path, found: Soaked, began: float) -> None:
    while True:
        await asyncio.sleep(max(found.plan.seconds / SAMPLES, 1.0))
        at_s, jobs = time.monotonic() - began, _ended(database)
        server = _of_processes("server", [on.servers[0].pid]) if found.is_up else {}
        if server and jobs > FULL_JOBS:
            server[FULL] = server["server RSS, MB"]
        for part, life, values in (
            ("server", found.kills, server),
            ("agents", 0, _of_processes("agents'", [agent.pid for agent in on.agents], children=True)),
            ("database", 0, _of_files(on, database, jobs)),
        ):
            if values:
                found.samples[part].append(Sample(at_s=at_s, life=life, values=values))


def _of_processes(name: str, pids: Sequence[int], *, children: bool = False) -> dict[str, float]:
    try:
        processes = [psutil.Process(pid) for pid in pids]
        values = {
            f"{name} RSS, MB": sum(one.memory_info().rss for one in processes) / BYTES_PER_MB,
            f"{name} descriptors": float(sum(one.num_fds() for one in processes)),
            f"{name} threads": float(sum(one.num_threads() for one in processes)),
        }
        if children:
            values[f"{name} tasks and shims"] = float(sum(len(one.children(recursive=True)) for one in processes))
    except psutil.Error:
        return {}
    return values


def _ended(database: Path) -> int:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        jobs: int = connection.execute("SELECT count(*) FROM sessions WHERE ended_us IS NOT NULL").fetchone()[0]
    return jobs


def _of_files(on: FailoverCluster, database: Path, jobs: int) -> dict[str, float]:
    if jobs < JOBS_MIN:
        return {}
    entries = sum(_entries(agent.folder) for agent in on.agents)
    return {"database, KB per job": database.stat().st_size / 1000 / jobs, "agents' entries per job": entries / jobs}


def _entries(folder: Path) -> int:
    """The number of entries at depth two, where each job has some."""
    with suppress(OSError):
        return sum(len(os.listdir(one.path)) for one in os.scandir(folder) if one.is_dir())
    return 0


async def _until_ended(database: Path, expected: int) -> None:
    async with asyncio.timeout(SETTLE_S_MAX):
        while _ended(database) < expected:  # noqa: ASYNC110  # another process writes
            await asyncio.sleep(0.5)


def _take_stock(database: Path, found: Soaked, wall_us: int) -> None:
    for state, queued_us, started_us, attempt in _listed(database):
        found.completed += state == "completed"
        found.repeated += attempt > 1
        if started_us is not None:
            found.waits_s.append(((queued_us - wall_us) / 1e6, (started_us - queued_us) / 1e6))


def _listed(database: Path) -> list[tuple[str, int, int | None, int]]:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return connection.execute(LISTED).fetchall()


def main() -> int:
    """Print the page."""
    parser = argparse.ArgumentParser(prog="soak_run", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=90.0)
    parser.add_argument("--jobs-per-s", type=float, default=20.0)
    parser.add_argument("--kill-every-s", type=float, default=300.0)
    asked = parser.parse_args()
    plan = SoakPlan(seconds=60 * asked.minutes, jobs_per_s=asked.jobs_per_s, kill_every_s=asked.kill_every_s)
    with tempfile.TemporaryDirectory(prefix="aliquot-soak-") as folder:
        print(asyncio.run(soak(Path(folder), plan)).page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
