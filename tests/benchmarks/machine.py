"""The machine's own performance, a reference for the other numbers."""

import os
import tempfile
import time
from pathlib import Path
from statistics import median

import psutil

ROUNDS = 50


def description() -> str:
    """Its cores and memory, as text."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown CPU")
    return f"{len(os.sched_getaffinity(0))} cores of {model}, {psutil.virtual_memory().total / 1e9:.0f} GB of memory"


def circumstances() -> str:
    """The date, and the load on the machine: that of the last minute, and the time of a sync."""
    day = time.strftime("%Y-%m-%d", time.gmtime())
    return f"{day}, load {os.getloadavg()[0]:.1f}, fsync {fsync_p50_s() * 1e3:.2f} ms"


def fsync_p50_s() -> float:
    """Seconds to write and sync 4 KiB in the folder that the benchmarks' servers use."""
    with tempfile.TemporaryFile() as file:
        return median(_sync_s(file.fileno()) for _ in range(ROUNDS))


def fork_s() -> float:
    """Median seconds from the start of `true` to its end."""
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
