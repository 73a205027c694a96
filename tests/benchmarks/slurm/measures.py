"""Measurements of Slurm, under the names of our own keys."""

import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from statistics import median
from typing import Final

from slurm.configuration import GPUS
from slurm.daemons import Slurm

ALONE: Final = 200
TOGETHER: Final = 1000
CLIENTS: Final = 64
TASKS: Final = 2000
ARRAYS: Final = 3
ROUNDS: Final = 10
JOBS: Final = 500
JOB_CLIENTS: Final = 8
PENDING: Final = 10_000
CRASHES: Final = 3
CRASH_CLIENTS: Final = 16
ACKNOWLEDGED: Final = 200
"""Per crash, before the kill."""
ANSWER_S_MAX: Final = 5.0
"""A command to a dead slurmctld would retry for minutes."""
POLL_S: Final = 0.1


def idle_measures(cluster: Slurm) -> dict[str, float]:
    """Of a cluster without jobs."""
    return {
        "start_latency_p50_s": median(_batch_latency_s(cluster) for _ in range(ROUNDS)),
        "srun_latency_p50_s": median(_srun_latency_s(cluster) for _ in range(ROUNDS)),
        "jobs_per_s": _jobs_per_s(cluster),
    }


def submission_measures(cluster: Slurm) -> dict[str, float]:
    """Of a cluster whose GPUs are all held; the jobs stay in the queue."""
    for _ in range(GPUS):
        submit(cluster, "sleep 3600")
    _until_none(cluster, "PD")
    return {
        "submit_per_s_1": _submissions_per_s(cluster, jobs=ALONE, clients=1),
        "submit_per_s_64": _submissions_per_s(cluster, jobs=TOGETHER, clients=CLIENTS),
        "submit_array_2000_s": median(_array_s(cluster) for _ in range(ARRAYS)),
    }


def fill(cluster: Slurm) -> None:
    """Queue up to 10,000 pending jobs, each submitted separately, no arrays."""
    cluster.run("scancel", "--name=array")
    missing = PENDING - len(cluster.run("squeue", "-h", "-t", "PD", "-o", "%i").split())
    _submissions_per_s(cluster, jobs=missing, clients=JOB_CLIENTS)


def full_queue_measures(cluster: Slurm) -> dict[str, float]:
    """Of a cluster with 10,000 jobs pending and 64 running."""
    list_s = _taken_s(lambda: cluster.run("squeue", "-t", "PD"))
    json_s = _taken_s(lambda: cluster.run("squeue", "--json"))
    cluster.stop_controller()
    restart_s = _taken_s(cluster.start_controller)
    assert len(cluster.run("squeue", "-h", "-t", "PD", "-o", "%i").split()) == PENDING
    return {"list_first_100_s": list_s, "list_json_s": json_s, "restart_s": restart_s}


def crash_measures(cluster: Slurm) -> dict[str, float]:
    """slurmctld is killed while jobs are submitted, run and end."""
    found = {"crash_acknowledged": 0, "crash_lost": 0, "crash_id_reused": 0}
    for _ in range(CRASHES):
        acknowledged = _crash_while_submitting(cluster)
        cluster.start_controller()
        kept = set(cluster.run("squeue", "-h", "-t", "all", "-o", "%i").split())
        after = {submit(cluster, "true") for _ in range(ACKNOWLEDGED)}
        found["crash_acknowledged"] += len(acknowledged)
        found["crash_lost"] += len(acknowledged - kept)
        found["crash_id_reused"] += len(acknowledged & after)
    return {name: float(value) for name, value in found.items()}


def submit(cluster: Slurm, command: str, *options: str, timeout_s: float = 120.0) -> str:
    """Submit a job for one GPU and return its id; empty when it was refused."""
    quiet = ("--output=/dev/null",) if not any(option.startswith("--output") for option in options) else ()
    given = ("--parsable", "--gres=gpu:1", *quiet, *options, "--wrap", command)
    return cluster.run("sbatch", *given, timeout_s=timeout_s).strip()


def _batch_latency_s(cluster: Slurm) -> float:
    """The job writes its start time."""
    output = cluster.folder / "first-line"
    output.unlink(missing_ok=True)
    began_ns = time.time_ns()
    submit(cluster, "date +%s%N", f"--output={output}")
    _until_none(cluster, "PD,R,CG")
    return (int(output.read_text(encoding="ascii")) - began_ns) / 1e9


def _srun_latency_s(cluster: Slurm) -> float:
    began_ns = time.time_ns()
    printed = cluster.run("srun", "--gres=gpu:1", "date", "+%s%N")
    _until_none(cluster, "PD,R,CG")
    return (int(printed) - began_ns) / 1e9


def _jobs_per_s(cluster: Slurm) -> float:
    began = time.perf_counter()
    with ThreadPoolExecutor(JOB_CLIENTS) as threads:
        assert all(threads.map(lambda _: submit(cluster, "true"), range(JOBS)))
    _until_none(cluster, "PD,R")
    return JOBS / (time.perf_counter() - began)


def _submissions_per_s(cluster: Slurm, *, jobs: int, clients: int) -> float:
    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as threads:
        assert all(threads.map(lambda _: submit(cluster, "true"), range(jobs)))
    return jobs / (time.perf_counter() - began)


def _array_s(cluster: Slurm) -> float:
    return _taken_s(lambda: submit(cluster, "true", f"--array=0-{TASKS - 1}", "--job-name=array"))


def _crash_while_submitting(cluster: Slurm) -> set[str]:
    """The ids of all jobs that were acknowledged before slurmctld was killed."""
    acknowledged: list[str] = []
    numbers = count()

    def work(_: int) -> None:
        try:
            while job := submit(cluster, "sleep 2", timeout_s=ANSWER_S_MAX):
                acknowledged.append(job)
                if next(numbers) == ACKNOWLEDGED:
                    cluster.stop_controller(signal.SIGKILL)
        except subprocess.TimeoutExpired:
            return

    with ThreadPoolExecutor(CRASH_CLIENTS) as threads:
        list(threads.map(work, range(CRASH_CLIENTS)))
    return set(acknowledged)


def _until_none(cluster: Slurm, states: str) -> None:
    while cluster.run("squeue", "-h", "-t", states, "-o", "%i").strip():
        time.sleep(POLL_S)


def _taken_s(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began
