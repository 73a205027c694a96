"""What this machine itself can do, to read the other numbers by."""

import os
import tempfile
import time
from pathlib import Path
from statistics import median

import psutil

ROUNDS = 50


def description() -> str:
    """Its cores and memory, in words."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown CPU")
    return f"{len(os.sched_getaffinity(0))} cores of {model}, {psutil.virtual_memory().total / 1e9:.0f} GB of memory"


def circumstances() -> str:
    """The day, and what weighs on the machine: its load of the last minute, and the time of a sync."""
    day = time.strftime("%Y-%m-%d", time.gmtime())
    return f"{day}, load {os.getloadavg()[0]:.1f}, fsync {fsync_p50_s() * 1e3:.2f} ms"


def fsync_p50_s() -> float:
    """Seconds for 4 KiB to be written and synced, in the folder that the benchmarks' servers use."""
    with tempfile.TemporaryFile() as file:
        return median(_sync_s(file.fileno()) for _ in range(ROUNDS))


def fork_s() -> float:
    """Seconds to start `true` and see it end, median."""
    return median(_spawn_s() for _ in range(ROUNDS))


def _sync_s(descriptor: int) -> float:
    began = time.perf_counter()
    os.write(descriptor, bytes(4096))
    os.fsync(descriptor)
    return time.perf_counter() - began


def _spawn_s() -> float:
    began = time.perf_counter()
    os.waitpid(os.posix_spawnp("true", ["true"], os.environ), 0)
    return time.perf_counter() - began
